// SPDX-License-Identifier: Apache-2.0
// Recurrences over tokens, spelled by chunks as PyTorch code spells them: found, equal, and left
// alone where something differs.
#include <limits>

#include "fusion/recurrences/chunk.h"
#include "tests/fusion/recurrences/torch_graphs.h"

namespace sinter::fusion {
namespace {

constexpr std::int64_t kChunks = 3, kLength = 4;

/// Ways in which the text is not the recurrence.
struct Change {
  bool shifted_mask = false, other_keys = false, other_decay = false;
};
/// How it is spelled.
struct Spelling {
  bool has_state = false;         // a first state is given, and the last one kept
  bool by_channel = false;        // decays, of the keys
  bool scales_once = false;       // queries and keys of all chunks, as transformers 5 does
  bool compares = false;          // masks are comparisons of positions, as large ones stay
  bool hands_on = false;          // one chunk reads the first state as it is
  std::int64_t length = kLength;  // of a chunk
  std::int64_t missing = 0;       // tokens of the last chunk, for which zeros stand
};

/// Zeros behind axis 1, up to whole chunks.
ValueId padded(Torch& t, ValueId value, std::int64_t missing) {
  if (missing == 0) return value;
  std::vector<ir::Dim> begins(t.shape(value).size(), ir::Dim(0)), ends = begins;
  ends[1] = missing;
  return t.b.add("Pad", {value}, {{"begins", begins}, {"ends", ends}});
}

/// x where row >= column + k of the last two dimensions, else `other`: not where a comparison of
/// positions, which selects from ones, is false.
ValueId compared_lower(Torch& t, ValueId x, std::int64_t k, double other) {
  const std::int64_t n = t.shape(x).back();
  const auto positions = [&](const Ints& shape, std::int64_t axis) {
    return t.b.add("Iota", {}, {{"shape", Shape(shape.begin(), shape.end())}, {"axis", axis}});
  };
  const ValueId row =
      t.op("Add", positions({n, 1}, 0), t.b.constant(Tensor::from_ints(DType::kInt64, {}, {{-k}})));
  const ValueId is_lower = t.op("GreaterOrEqual", row, positions({1, n}, 1));
  const std::vector<std::uint8_t> ones(static_cast<std::size_t>(n * n), 1), none{0};
  const ValueId kept =
      t.b.add("Where", {is_lower, t.b.constant(Tensor::of(DType::kBool, {n, n}, ones)),
                        t.b.constant(Tensor::of(DType::kBool, {}, none))});
  return t.b.add("Where", {t.b.add("Not", {kept}), t.b.scalar(kF32, other), x});
}

/// Mamba-2 in the manner of transformers: states [heads, channels, keys].
ir::Graph mamba2(std::int64_t chunks, const Change& change = {}, const Spelling& spelling = {}) {
  Torch t;
  const std::int64_t length = spelling.length, tokens = chunks * length - spelling.missing;
  const ValueId x = t.input("x", {kBatch, tokens, kHeads, kValues}),
                a = t.input("a", {kBatch, tokens, kHeads}),
                keys = t.input("b", {kBatch, tokens, 2, kKeys}),
                queries = t.input("c", {kBatch, tokens, 2, kKeys}),
                others = t.input("o", {kBatch, tokens, kHeads});
  const auto chunked = [&](ValueId value) {
    Ints dims = t.shape(value);
    dims[1] = length;
    dims.insert(dims.begin() + 1, chunks);
    return t.view(padded(t, value, spelling.missing), dims);
  };
  const auto repeat = [&](ValueId value) {
    const ValueId wide = t.expand(t.unsqueeze(value, 3), {kBatch, tokens, 2, 2, kKeys});
    return chunked(t.view(wide, {kBatch, tokens, kHeads, kKeys}));
  };
  const ValueId b = repeat(keys), c = repeat(queries), v = chunked(x);
  const auto by_chunk = [&](ValueId value) { return t.permute(chunked(value), {0, 3, 1, 2}); };
  const ValueId d = by_chunk(a), sums = t.cumsum(d, 3);
  const double hidden = -std::numeric_limits<double>::infinity();
  const auto lower = [&](ValueId value, std::int64_t k, double other) {
    return spelling.compares ? compared_lower(t, value, k, other) : t.lower(value, k, other);
  };
  const auto segments = [&](ValueId value, std::int64_t k) {
    Ints dims = t.shape(value);
    const std::int64_t n = dims.back(), axis = std::ssize(dims) - 1;
    dims.push_back(n);
    const ValueId wide = t.expand(t.unsqueeze(value, axis + 1), dims);
    return t.exp(lower(t.cumsum(lower(wide, k, 0), axis), 0, hidden));
  };
  const ValueId within = segments(d, change.shifted_mask ? 0 : 1);  // [b, h, c, l, s]
  const ValueId scores = t.sum(t.mul(t.unsqueeze(c, 3), t.unsqueeze(b, 2)), 5);
  const ValueId weights = t.mul(scores, t.permute(within, {0, 2, 3, 4, 1}));
  const ValueId own = t.sum(t.mul(t.unsqueeze(weights, 5), t.unsqueeze(v, 2)), 3);
  const ValueId left = t.exp(t.op("Sub", t.slice(sums, 3, length - 1, length),
                                  change.other_decay ? t.cumsum(by_chunk(others), 3) : sums));
  const ValueId written =
      t.mul(change.other_keys ? c : b, t.unsqueeze(t.permute(left, {0, 2, 3, 1}), 4));
  const ValueId added = t.sum(t.mul(t.unsqueeze(written, 4), t.unsqueeze(v, 5)), 2);
  const ValueId first = spelling.has_state
                            ? t.unsqueeze(t.input("s", {kBatch, kHeads, kValues, kKeys}), 1)
                            : t.zeros({kBatch, 1, kHeads, kValues, kKeys});
  ValueId before = first;
  if (!spelling.hands_on) {
    const ValueId states = t.b.add("Concat", {first, added}, {{"axis", std::int64_t{1}}});
    const ValueId totals = t.b.add(
        "Pad", {t.pick(sums, 3, length - 1)},
        {{"begins", std::vector<ir::Dim>{0, 0, 1}}, {"ends", std::vector<ir::Dim>{0, 0, 0}}});
    const ValueId between = t.permute(segments(totals, 1), {0, 3, 2, 1});
    const ValueId spread = t.view(between, {kBatch, chunks + 1, chunks + 1, kHeads, 1, 1});
    const ValueId all = t.sum(t.mul(spread, t.unsqueeze(states, 2)), 1);
    before = t.slice(all, 1, 0, chunks);
    if (spelling.has_state) t.b.output("last", t.pick(all, 1, chunks));
  }
  const ValueId read = t.sum(t.mul(t.unsqueeze(c, 4), t.unsqueeze(before, 2)), 5);
  const ValueId rest = t.mul(read, t.unsqueeze(t.permute(t.exp(sums), {0, 2, 3, 1}), 4));
  const ValueId y =
      t.view(t.op("Add", own, rest), {kBatch, tokens + spelling.missing, kHeads, kValues});
  t.b.output("y", t.slice(y, 1, 0, tokens));
  return t.b.finish();
}

/// The gated delta rule in the manner of transformers.
ir::Graph gated_delta(std::int64_t chunks, const Change& change = {},
                      const Spelling& spelling = {}) {
  Torch t;
  const std::int64_t length = spelling.length, tokens = chunks * length;
  const std::int64_t given = tokens - spelling.missing;
  const ValueId q = t.input("q", {kBatch, given, kHeads, kKeys}),
                k = t.input("k", {kBatch, given, kHeads, kKeys}),
                v = t.input("v", {kBatch, given, kHeads, kValues}),
                a = spelling.by_channel ? t.input("a", {kBatch, given, kHeads, kKeys})
                                        : t.input("a", {kBatch, given, kHeads}),
                rate = t.input("r", {kBatch, given, kHeads}),
                others = t.input("o", {kBatch, given, kHeads});
  const auto heads_first = [&](ValueId value) {
    return t.permute(padded(t, value, spelling.missing),
                     t.shape(value).size() == 4 ? Ints{0, 2, 1, 3} : Ints{0, 2, 1});
  };
  const auto chunked = [&](ValueId value) {
    Ints dims = t.shape(value);
    dims.insert(dims.begin() + 3, length);
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
  /// exp(G) for each key.
  const auto spread = [&](ValueId exponents) {
    const ValueId power = t.exp(exponents);
    return spelling.by_channel ? power : t.unsqueeze(power, std::ssize(t.shape(power)));
  };
  ValueId decay;
  if (!spelling.by_channel) {
    const ValueId gaps = t.op("Sub", t.unsqueeze(g, 4), t.unsqueeze(g, 3));
    decay = spelling.scales_once ? t.exp(t.lower(gaps, 0, -kInfinity))
                                 : t.lower(t.exp(t.lower(gaps, 0, 0)), 0, 0);
  } else {
    // [.., rows, columns, keys]: the mask has the keys' dimension behind it.
    const ValueId gaps = t.op("Sub", t.unsqueeze(g, 4), t.unsqueeze(g, 3));
    decay = t.exp(t.lower_of(gaps, 5, 0, -kInfinity));
  }
  /// rows . keys, decayed between them.
  const auto decayed = [&](ValueId rows, ValueId keys, ValueId between) {
    if (!spelling.by_channel) return t.mul(matmul(rows, t.swap(keys)), between);
    const std::int64_t at = std::ssize(t.shape(rows)) - 1;
    return t.sum(t.mul(t.mul(t.unsqueeze(rows, at), t.unsqueeze(keys, at - 1)), between), at + 1);
  };
  ValueId solved =
      t.b.add("Neg", {t.lower(decayed(scaled_key, key, decay), change.shifted_mask ? 0 : 1, 0)});
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
  for (std::int64_t i = 1; i < length; ++i) {
    const ValueId all = t.pick(solved, 3, i), row = t.slice(all, 3, 0, i);
    const ValueId sub = t.slice(t.slice(solved, 3, 0, i), 4, 0, i);
    const ValueId made = t.op("Add", row, t.sum(t.mul(t.unsqueeze(row, 4), sub), 3));
    const ValueId whole = t.b.add(
        "Scatter", {all, made, iota(kBatch, 3), iota(kHeads, 2), iota(chunks, 1), iota(i, 0)});
    solved = t.b.add("Scatter", {solved, t.unsqueeze(whole, 3), iota(kBatch, 4), iota(kHeads, 3),
                                 iota(chunks, 2), filled({1, 1}, i), iota(length, 0)});
  }
  std::vector<double> unit;
  for (std::int64_t i = 0; i < length * length; ++i)
    unit.push_back(i / length == i % length ? 1 : 0);
  solved = t.op("Add", solved, t.b.constant(Tensor::from_doubles(kF32, {length, length}, unit)));
  const ValueId values = matmul(solved, scaled_value),
                held = matmul(solved, t.mul(scaled_key, spread(g)));
  ValueId state = spelling.has_state ? t.input("s", {kBatch, kHeads, kKeys, kValues})
                                     : t.zeros({kBatch, kHeads, kKeys, kValues}),
          out = t.zeros({kBatch, kHeads, chunks, length, kValues});
  const std::int64_t end = length - 1;
  const ValueId read_once = t.mul(query, spread(g)),
                written_once = t.mul(key, spread(t.op("Sub", t.slice(g2, 3, end, length), g))),
                scores_once = decayed(query, key, decay);
  for (std::int64_t c = 0; c < chunks; ++c) {
    const ValueId q_c = t.pick(query, 2, c), k_c = t.pick(change.other_keys ? query : key, 2, c),
                  g_c = t.pick(g, 2, c), last = t.pick(t.pick(g2, 2, c), 2, end);
    const ValueId scores = spelling.scales_once
                               ? t.pick(scores_once, 2, c)
                               : t.lower(decayed(q_c, k_c, t.pick(decay, 2, c)), 0, 0);
    const ValueId update = t.op("Sub", t.pick(values, 2, c), matmul(t.pick(held, 2, c), state));
    const ValueId before =
        matmul(spelling.scales_once ? t.pick(read_once, 2, c) : t.mul(q_c, spread(g_c)), state);
    out = t.b.add("Scatter", {out, t.unsqueeze(t.op("Add", before, matmul(scores, update)), 2),
                              iota(kBatch, 4), iota(kHeads, 3), filled({1, 1, 1}, c),
                              iota(length, 1), iota(kValues, 0)});
    const ValueId kept = spelling.by_channel ? t.unsqueeze(t.exp(last), 3)
                                             : t.exp(t.view(last, {kBatch, kHeads, 1, 1}));
    const ValueId left = spread(t.op("Sub", t.unsqueeze(last, 2), g_c));
    const ValueId written = spelling.scales_once ? t.pick(written_once, 2, c) : t.mul(k_c, left);
    state = t.op("Add", t.mul(state, kept), matmul(t.swap(written), update));
  }
  const ValueId y = t.permute(t.view(out, {kBatch, kHeads, tokens, kValues}), {0, 2, 1, 3});
  t.b.output("y", t.slice(y, 1, 0, given));
  t.b.output("state", state);
  return t.b.finish();
}

TEST(Recurrences, Mamba2ByChunks) { expect_found(mamba2(kChunks), "linear"); }

// Chunks as long as there are keys, values and heads, too.
TEST(Recurrences, Mamba2InAllSpellings) {
  for (const bool has_state : {false, true})
    for (const bool compares : {false, true})
      for (const std::int64_t chunks : {1, 3})
        for (const std::int64_t length : {3, 4, 5, 7})
          for (const std::int64_t missing : {0, 2}) {
            SCOPED_TRACE(testing::Message()
                         << has_state << compares << chunks << length << missing);
            const Spelling spelling{
                .has_state = has_state, .compares = compares, .length = length, .missing = missing};
            const ir::Graph found = expect_found(mamba2(chunks, {}, spelling), "linear");
            for (const ir::Node& node : found.nodes())
              if (node.op->name == "LinearAttention") {
                EXPECT_EQ(found.type(node.inputs[0]).shape[1], chunks * length - missing);
              }
          }
}

TEST(Recurrences, Mamba2OfOneChunkThatReadsTheFirstState) {
  expect_found(mamba2(1, {}, {.hands_on = true}), "linear");
  expect_found(mamba2(1, {}, {.has_state = true, .hands_on = true}), "linear");
  expect_refused(mamba2(2, {}, {.hands_on = true}), "not read from a state before the chunk");
}

TEST(Recurrences, Mamba2ThatIsNone) {
  for (const std::int64_t chunks : {1, 3}) {
    expect_refused(mamba2(chunks, {.shifted_mask = true}),
                   "what a chunk's tokens score does not decay");
    expect_refused(mamba2(chunks, {.other_keys = true}),
                   "the state is written with other keys or values");
    expect_refused(mamba2(chunks, {.other_decay = true}), "what a token writes does not decay");
  }
}

TEST(Recurrences, StayAsSpelledWithoutAKernel) {
  expect_refused(mamba2(kChunks), "this target has no kernel for it", Context());
  expect_refused(gated_delta(2), "this target has no kernel for it", Context());
  Context narrow = context_of_target();
  for (auto& row : narrow.target.formats) row.most = kKeys - 1;
  expect_refused(mamba2(kChunks), "this target has no kernel for it", narrow);
  expect_refused(gated_delta(2), "this target has no kernel for it", narrow);
}

TEST(Recurrences, GatedDeltaByChunks) {
  expect_found(gated_delta(kChunks), "delta");
  expect_found(gated_delta(1), "delta");
}

TEST(Recurrences, DeltaRulesInAllSpellings) {
  for (const bool has_state : {false, true})
    for (const bool by_channel : {false, true})
      for (const bool scales_once : {false, true})
        for (const std::int64_t chunks : {1, 3}) {
          SCOPED_TRACE(testing::Message() << has_state << by_channel << scales_once << chunks);
          for (const std::int64_t length : {3, 4, 5}) {
            SCOPED_TRACE(length);
            Spelling spelling{has_state, by_channel, scales_once};
            spelling.length = length;
            expect_found(gated_delta(chunks, {}, spelling), "delta");
            spelling.missing = 2;
            expect_found(gated_delta(chunks, {}, spelling), "delta");
          }
        }
}

TEST(Recurrences, GatedDeltaThatIsNone) {
  expect_refused(gated_delta(2, {.shifted_mask = true}),
                 "its triangular system is not zero just for later");
  expect_refused(gated_delta(2, {.other_keys = true}), "");
  expect_refused(gated_delta(2, {.other_decay = true}), "no state follows");
}

}  // namespace
}  // namespace sinter::fusion
