// SPDX-License-Identifier: Apache-2.0
// Recurrences over tokens, spelled by chunks as PyTorch code spells them: found, equal, and left
// alone where something differs.
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/passes/passes.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

using ir::GraphBuilder;
using ir::Ints;
using ir::Shape;
using ir::Tensor;
using ir::ValueId;

constexpr DType kF32 = DType::kFloat32;
constexpr std::int64_t kBatch = 2, kChunks = 3, kLength = 4, kHeads = 4, kKeys = 3, kValues = 5;
constexpr std::int64_t kTokens = kChunks * kLength;

/// PyTorch's vocabulary over a GraphBuilder.
struct Torch {
  GraphBuilder b;

  ValueId input(const char* name, const Ints& shape) {
    return b.input(name, {kF32, Shape(shape.begin(), shape.end())});
  }
  Ints shape(ValueId x) const {
    Ints result;
    for (const ir::Dim& dim : b.type(x).shape) result.push_back(dim.value());
    return result;
  }
  ValueId view(ValueId x, const Ints& shape) {
    return b.add("Reshape", {x}, {{"shape", Shape(shape.begin(), shape.end())}});
  }
  ValueId permute(ValueId x, Ints perm) {
    return b.add("Transpose", {x}, {{"perm", std::move(perm)}});
  }
  ValueId swap(ValueId x) {  // the last two dimensions
    Ints perm(b.type(x).shape.size());
    for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(d);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return permute(x, perm);
  }
  ValueId unsqueeze(ValueId x, std::int64_t axis) {
    Ints dims = shape(x);
    dims.insert(dims.begin() + axis, 1);
    return view(x, dims);
  }
  ValueId expand(ValueId x, const Ints& shape) {
    return b.add("Expand", {x}, {{"shape", Shape(shape.begin(), shape.end())}});
  }
  ValueId op(const char* name, ValueId x, ValueId y) { return b.add(name, {x, y}); }
  ValueId mul(ValueId x, ValueId y) { return op("Mul", x, y); }
  ValueId exp(ValueId x) { return b.add("Exp", {x}); }
  ValueId sum(ValueId x, std::int64_t axis) {
    return b.add("ReduceSum", {x}, {{"axes", Ints{axis}}, {"keepdims", std::int64_t{0}}});
  }
  ValueId cumsum(ValueId x, std::int64_t axis) {
    return b.add("Scan", {x}, {{"axis", axis}, {"combine", std::string("sum")}});
  }
  ValueId pick(ValueId x, std::int64_t axis, std::int64_t at) {
    return b.add("Gather", {x, b.constant(Tensor::from_ints(DType::kInt64, {}, {{at}}))},
                 {{"axis", axis}});
  }
  ValueId slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end) {
    Ints dims = shape(x);
    const std::size_t rank = dims.size();
    dims[static_cast<std::size_t>(axis)] = end - begin;
    std::vector<ir::Dim> starts(rank, ir::Dim(0));
    starts[static_cast<std::size_t>(axis)] = begin;
    return b.add(
        "Slice", {x},
        {{"starts", starts}, {"steps", Ints(rank, 1)}, {"shape", Shape(dims.begin(), dims.end())}});
  }
  ValueId zeros(const Ints& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    return b.constant(
        Tensor::from_doubles(kF32, shape, std::vector<double>(static_cast<std::size_t>(count))));
  }
  /// x where row >= column + k of the last two dimensions, else `other`.
  ValueId lower(ValueId x, std::int64_t k, double other) {
    const Ints dims = shape(x);
    const std::int64_t n = dims.back();
    std::vector<std::uint8_t> mask;
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t c = 0; c < n; ++c) mask.push_back(r < c + k);
    return b.add("Where",
                 {b.constant(Tensor::of(DType::kBool, {n, n}, mask)), b.scalar(kF32, other), x});
  }
};

/// Ways in which the text is not the recurrence.
struct Change {
  bool shifted_mask = false, other_keys = false, other_decay = false;
};

/// Mamba-2 in the manner of transformers: states [heads, channels, keys].
ir::Graph mamba2(const Change& change = {}) {
  Torch t;
  const ValueId x = t.input("x", {kBatch, kTokens, kHeads, kValues}),
                a = t.input("a", {kBatch, kTokens, kHeads}),
                keys = t.input("b", {kBatch, kTokens, 2, kKeys}),
                queries = t.input("c", {kBatch, kTokens, 2, kKeys}),
                others = t.input("o", {kBatch, kTokens, kHeads});
  const auto repeat = [&](ValueId value) {
    const ValueId wide = t.expand(t.unsqueeze(value, 3), {kBatch, kTokens, 2, 2, kKeys});
    return t.view(t.view(wide, {kBatch, kTokens, kHeads, kKeys}),
                  {kBatch, kChunks, kLength, kHeads, kKeys});
  };
  const ValueId b = repeat(keys), c = repeat(queries),
                v = t.view(x, {kBatch, kChunks, kLength, kHeads, kValues});
  const auto by_chunk = [&](ValueId value) {
    return t.permute(t.view(value, {kBatch, kChunks, kLength, kHeads}), {0, 3, 1, 2});
  };
  const ValueId d = by_chunk(a), sums = t.cumsum(d, 3);
  const double hidden = -std::numeric_limits<double>::infinity();
  const auto segments = [&](ValueId value, std::int64_t k) {
    Ints dims = t.shape(value);
    const std::int64_t n = dims.back(), axis = std::ssize(dims) - 1;
    dims.push_back(n);
    const ValueId wide = t.expand(t.unsqueeze(value, axis + 1), dims);
    return t.exp(t.lower(t.cumsum(t.lower(wide, k, 0), axis), 0, hidden));
  };
  const ValueId within = segments(d, change.shifted_mask ? 0 : 1);  // [b, h, c, l, s]
  const ValueId scores = t.sum(t.mul(t.unsqueeze(c, 3), t.unsqueeze(b, 2)), 5);
  const ValueId weights = t.mul(scores, t.permute(within, {0, 2, 3, 4, 1}));
  const ValueId own = t.sum(t.mul(t.unsqueeze(weights, 5), t.unsqueeze(v, 2)), 3);
  const ValueId left = t.exp(t.op("Sub", t.slice(sums, 3, kLength - 1, kLength),
                                  change.other_decay ? t.cumsum(by_chunk(others), 3) : sums));
  const ValueId written =
      t.mul(change.other_keys ? c : b, t.unsqueeze(t.permute(left, {0, 2, 3, 1}), 4));
  const ValueId added = t.sum(t.mul(t.unsqueeze(written, 4), t.unsqueeze(v, 5)), 2);
  const ValueId states = t.b.add("Concat", {t.zeros({kBatch, 1, kHeads, kValues, kKeys}), added},
                                 {{"axis", std::int64_t{1}}});
  const ValueId totals =
      t.b.add("Pad", {t.pick(sums, 3, kLength - 1)},
              {{"begins", std::vector<ir::Dim>{0, 0, 1}}, {"ends", std::vector<ir::Dim>{0, 0, 0}}});
  const ValueId between = t.permute(segments(totals, 1), {0, 3, 2, 1});
  const ValueId spread = t.view(between, {kBatch, kChunks + 1, kChunks + 1, kHeads, 1, 1});
  const ValueId all = t.sum(t.mul(spread, t.unsqueeze(states, 2)), 1);
  const ValueId before = t.slice(all, 1, 0, kChunks);
  const ValueId read = t.sum(t.mul(t.unsqueeze(c, 4), t.unsqueeze(before, 2)), 5);
  const ValueId rest = t.mul(read, t.unsqueeze(t.permute(t.exp(sums), {0, 2, 3, 1}), 4));
  t.b.output("y", t.view(t.op("Add", own, rest), {kBatch, kTokens, kHeads, kValues}));
  return t.b.finish();
}

/// The gated delta rule in the manner of transformers.
ir::Graph gated_delta(std::int64_t chunks, const Change& change = {}) {
  Torch t;
  const std::int64_t tokens = chunks * kLength;
  const ValueId q = t.input("q", {kBatch, tokens, kHeads, kKeys}),
                k = t.input("k", {kBatch, tokens, kHeads, kKeys}),
                v = t.input("v", {kBatch, tokens, kHeads, kValues}),
                a = t.input("a", {kBatch, tokens, kHeads}),
                rate = t.input("r", {kBatch, tokens, kHeads}),
                others = t.input("o", {kBatch, tokens, kHeads});
  const auto heads_first = [&](ValueId value) {
    return t.permute(value, t.shape(value).size() == 4 ? Ints{0, 2, 1, 3} : Ints{0, 2, 1});
  };
  const auto chunked = [&](ValueId value) {
    Ints dims = t.shape(value);
    dims.insert(dims.begin() + 3, kLength);
    dims[2] = chunks;
    return t.view(value, dims);
  };
  const ValueId beta = t.unsqueeze(heads_first(rate), 3);
  const ValueId query = chunked(t.mul(heads_first(q), t.b.scalar(kF32, 0.5))),
                key = chunked(heads_first(k)), scaled_key = chunked(t.mul(heads_first(k), beta)),
                scaled_value = chunked(t.mul(heads_first(v), beta));
  const ValueId g = t.cumsum(chunked(heads_first(a)), 3);
  const ValueId g2 = change.other_decay ? t.cumsum(chunked(heads_first(others)), 3) : g;
  const auto matmul = [&](ValueId x, ValueId y) { return t.op("MatMul", x, y); };
  const ValueId gaps = t.op("Sub", t.unsqueeze(g, 4), t.unsqueeze(g, 3));
  const ValueId decay = t.lower(t.exp(t.lower(gaps, 0, 0)), 0, 0);
  ValueId solved = t.b.add("Neg", {t.lower(t.mul(matmul(scaled_key, t.swap(key)), decay),
                                           change.shifted_mask ? 0 : 1, 0)});
  const auto filled = [&](const Ints& shape, std::int64_t value) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    return t.b.constant(
        Tensor::from_ints(DType::kInt64, shape, Ints(static_cast<std::size_t>(count), value)));
  };
  const auto iota = [&](std::int64_t size, std::size_t behind) {
    Shape shape(behind + 1, ir::Dim(1));
    shape[0] = size;
    return t.b.add("Iota", {}, {{"shape", shape}});
  };
  for (std::int64_t i = 1; i < kLength; ++i) {
    const ValueId all = t.pick(solved, 3, i), row = t.slice(all, 3, 0, i);
    const ValueId sub = t.slice(t.slice(solved, 3, 0, i), 4, 0, i);
    const ValueId made = t.op("Add", row, t.sum(t.mul(t.unsqueeze(row, 4), sub), 3));
    const ValueId whole = t.b.add(
        "Scatter", {all, made, iota(kBatch, 3), iota(kHeads, 2), iota(chunks, 1), iota(i, 0)});
    solved = t.b.add("Scatter", {solved, t.unsqueeze(whole, 3), iota(kBatch, 4), iota(kHeads, 3),
                                 iota(chunks, 2), filled({1, 1}, i), iota(kLength, 0)});
  }
  std::vector<double> unit;
  for (std::int64_t i = 0; i < kLength * kLength; ++i)
    unit.push_back(i / kLength == i % kLength ? 1 : 0);
  solved = t.op("Add", solved, t.b.constant(Tensor::from_doubles(kF32, {kLength, kLength}, unit)));
  const ValueId values = matmul(solved, scaled_value),
                held = matmul(solved, t.mul(scaled_key, t.unsqueeze(t.exp(g), 4)));
  ValueId state = t.zeros({kBatch, kHeads, kKeys, kValues}),
          out = t.zeros({kBatch, kHeads, chunks, kLength, kValues});
  for (std::int64_t c = 0; c < chunks; ++c) {
    const ValueId q_c = t.pick(query, 2, c), k_c = t.pick(change.other_keys ? query : key, 2, c),
                  g_c = t.pick(g, 2, c), last = t.pick(t.pick(g2, 2, c), 2, kLength - 1);
    const ValueId scores = t.lower(t.mul(matmul(q_c, t.swap(k_c)), t.pick(decay, 2, c)), 0, 0);
    const ValueId update = t.op("Sub", t.pick(values, 2, c), matmul(t.pick(held, 2, c), state));
    const ValueId before = matmul(t.mul(q_c, t.exp(t.unsqueeze(g_c, 3))), state);
    out = t.b.add("Scatter", {out, t.unsqueeze(t.op("Add", before, matmul(scores, update)), 2),
                              iota(kBatch, 4), iota(kHeads, 3), filled({1, 1, 1}, c),
                              iota(kLength, 1), iota(kValues, 0)});
    const ValueId kept = t.exp(t.view(last, {kBatch, kHeads, 1, 1}));
    const ValueId left = t.exp(t.op("Sub", t.unsqueeze(last, 2), g_c));
    state =
        t.op("Add", t.mul(state, kept), matmul(t.swap(t.mul(k_c, t.unsqueeze(left, 3))), update));
  }
  t.b.output("y", t.permute(t.view(out, {kBatch, kHeads, tokens, kValues}), {0, 2, 1, 3}));
  t.b.output("state", state);
  return t.b.finish();
}

std::vector<Tensor> draw(const ir::Graph& graph) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 0.3);
  std::vector<Tensor> inputs;
  for (const ValueId input : graph.inputs()) {
    Ints shape;
    std::int64_t count = 1;
    for (const ir::Dim& dim : graph.type(input).shape) {
      shape.push_back(dim.value());
      count *= dim.value();
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = uniform(random);
    inputs.push_back(Tensor::from_doubles(kF32, shape, values));
  }
  return inputs;
}

int count_of(const ir::Graph& graph, std::string_view op) {
  int count = 0;
  for (const ir::Node& node : graph.nodes()) count += node.op->name == op ? 1 : 0;
  return count;
}

/// Of a target with kernels for all rules.
Context context_of_target() {
  Context context;
  for (const char* const rule : {"linear", "delta"})
    context.target.formats.push_back({.op = "LinearAttention", .left = kF32, .right = rule});
  return context;
}

void expect_found(const ir::Graph& graph, const std::string& rule) {
  Context context = context_of_target();
  const ir::Graph found = recognise_recurrences(graph, context);
  std::string reasons;
  for (const Decision& decision : context.decisions) reasons += decision.reason + "\n";
  ASSERT_EQ(count_of(found, "LinearAttention"), 1) << reasons;
  EXPECT_EQ(count_of(found, "Exp"), 0);
  for (const ir::Node& node : found.nodes())
    if (node.op->name == "LinearAttention") {
      EXPECT_EQ(node.attrs.get_string("rule"), rule);
    }
  const auto inputs = draw(graph);
  ir::EvaluateOptions wide;
  wide.keep_wide = true;
  const auto expected = ir::evaluate(graph, inputs, wide), now = ir::evaluate(found, inputs, wide);
  for (std::size_t o = 0; o < expected.size(); ++o)
    for (std::int64_t i = 0; i < expected[o].element_count(); ++i)
      ASSERT_NEAR(now[o].at(i), expected[o].at(i), 1e-10) << o << " " << i;
}

void expect_refused(const ir::Graph& graph, const std::string& why,
                    Context context = context_of_target()) {
  EXPECT_EQ(count_of(recognise_recurrences(graph, context), "LinearAttention"), 0);
  ASSERT_FALSE(context.decisions.empty());
  EXPECT_THAT(context.decisions.back().reason, testing::HasSubstr(why));
  EXPECT_EQ(context.decisions.back().sought, "LinearAttention");
}

TEST(Recurrences, Mamba2ByChunks) { expect_found(mamba2(), "linear"); }

TEST(Recurrences, Mamba2ThatIsNone) {
  expect_refused(mamba2({.shifted_mask = true}), "what a chunk's tokens score does not decay");
  expect_refused(mamba2({.other_keys = true}), "the state is written with other keys or values");
  expect_refused(mamba2({.other_decay = true}), "what a token writes does not decay");
}

TEST(Recurrences, StayAsSpelledWithoutAKernel) {
  expect_refused(mamba2(), "this target has no kernel for it", Context());
  expect_refused(gated_delta(2), "this target has no kernel for it", Context());
  Context narrow = context_of_target();
  for (auto& row : narrow.target.formats) row.most = kKeys - 1;
  expect_refused(mamba2(), "this target has no kernel for it", narrow);
  expect_refused(gated_delta(2), "this target has no kernel for it", narrow);
}

TEST(Recurrences, GatedDeltaByChunks) {
  expect_found(gated_delta(kChunks), "delta");
  expect_found(gated_delta(1), "delta");
}

TEST(Recurrences, GatedDeltaThatIsNone) {
  expect_refused(gated_delta(2, {.shifted_mask = true}), "its triangular system is not zero just for later");
  expect_refused(gated_delta(2, {.other_keys = true}), "");
  expect_refused(gated_delta(2, {.other_decay = true}), "no state follows");
}

}  // namespace
}  // namespace sinter::fusion
