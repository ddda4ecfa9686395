// SPDX-License-Identifier: Apache-2.0
// LinearAttention on the CPU against the recurrence in float64, token by token.
#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {
namespace {

constexpr DType kF32 = DType::kFloat32, kF16 = DType::kFloat16, kBF16 = DType::kBFloat16;
enum Rule : std::uint8_t { kLinear, kDelta, kGeneralDelta };
enum Gate : std::uint8_t { kNone, kByHead, kByChannel };

struct Layer {
  Rule rule = kLinear;
  Gate gate = kByHead;
  std::int64_t length = 5, batch = 2;
  std::int64_t query_heads = 2, key_heads = 2, value_heads = 2, keys = 8, values = 4;
  bool has_state = true;
  DType type = kF32, state_type = kF32;
  std::int64_t slots = 0;  // of a ragged batch

  std::int64_t heads() const { return std::max(key_heads, value_heads); }
  std::int64_t out_heads() const { return std::max(query_heads, heads()); }
};

const std::vector<std::int64_t> kAbsent{0, 0, 0, 0};

/// Query, key, value, decay, beta, erase and state: shapes of the operator's inputs. Absent ones
/// have no elements.
std::vector<std::vector<std::int64_t>> shapes_of(const Layer& l) {
  const auto optional = [&](bool is_there, std::vector<std::int64_t> shape) {
    return is_there ? shape : kAbsent;
  };
  return {
      {l.batch, l.length, l.query_heads, l.keys},
      {l.batch, l.length, l.key_heads, l.keys},
      {l.batch, l.length, l.value_heads, l.values},
      optional(l.gate != kNone, {l.batch, l.length, l.heads(), l.gate == kByChannel ? l.keys : 1}),
      optional(l.rule == kDelta, {l.batch, l.length, l.heads(), 1}),
      optional(l.rule == kGeneralDelta, {l.batch, l.length, l.heads(), 2 * l.keys}),
      optional(l.has_state, {l.slots > 0 ? l.slots : l.batch, l.heads(), l.keys, l.values})};
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

using Values = std::vector<double>;

std::vector<Values> draw(const Layer& l, double decay = 0.4) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto shapes = shapes_of(l);
  std::vector<Values> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Values& values = inputs.emplace_back(static_cast<std::size_t>(count_of(shapes[i])));
    for (double& value : values) {
      // Keys of about length 1, so that delta rules are stable.
      if (i == 1)
        value = normal(random) / std::sqrt(static_cast<double>(l.keys));
      else if (i == 3)
        value = -decay * uniform(random);
      else if (i == 4)
        value = uniform(random);
      else if (i == 5)
        value = 0.3 * normal(random) / std::sqrt(static_cast<double>(l.keys));
      else
        value = normal(random);
    }
  }
  return inputs;
}

constexpr double kScale = 0.5;

/// The outputs and the last states.
std::pair<Values, Values> recurrence(const Layer& l, const std::vector<Values>& in) {
  const std::int64_t heads = l.heads(), read = l.out_heads(), size = l.keys * l.values;
  Values out(static_cast<std::size_t>(l.batch * l.length * read * l.values));
  Values all(static_cast<std::size_t>(l.batch * heads * size));
  if (l.has_state) all = in[6];
  for (std::int64_t b = 0; b < l.batch; ++b)
    for (std::int64_t t = 0; t < l.length; ++t) {
      const std::int64_t token = b * l.length + t;
      for (std::int64_t h = 0; h < heads; ++h) {
        double* const s = all.data() + (b * heads + h) * size;
        const double* const k =
            in[1].data() + (token * l.key_heads + h / (heads / l.key_heads)) * l.keys;
        const double* const v =
            in[2].data() + (token * l.value_heads + h / (heads / l.value_heads)) * l.values;
        const std::int64_t at = token * heads + h;
        for (std::int64_t j = 0; j < l.values; ++j) {
          double erased = 0, held = 0;
          for (std::int64_t i = 0; i < l.keys; ++i) {
            double& x = s[i * l.values + j];
            if (l.rule == kGeneralDelta)
              erased += in[5][static_cast<std::size_t>(at * 2 * l.keys + i)] * x;
            if (l.gate != kNone)
              x *= std::exp(
                  in[3][static_cast<std::size_t>(l.gate == kByHead ? at : at * l.keys + i)]);
            held += k[i] * x;
          }
          const double u =
              l.rule == kDelta ? in[4][static_cast<std::size_t>(at)] * (v[j] - held) : v[j];
          for (std::int64_t i = 0; i < l.keys; ++i) {
            double& x = s[i * l.values + j];
            if (l.rule == kGeneralDelta)
              x += in[5][static_cast<std::size_t>((at * 2 + 1) * l.keys + i)] * erased;
            x += k[i] * u;
          }
        }
      }
      for (std::int64_t h = 0; h < read; ++h) {
        const double* const s = all.data() + (b * heads + h / (read / heads)) * size;
        const double* const q =
            in[0].data() + (token * l.query_heads + h / (read / l.query_heads)) * l.keys;
        for (std::int64_t j = 0; j < l.values; ++j)
          for (std::int64_t i = 0; i < l.keys; ++i)
            out[static_cast<std::size_t>((token * read + h) * l.values + j)] +=
                kScale * q[i] * s[i * l.values + j];
      }
    }
  return {out, all};
}

/// Of a ragged batch: first tokens, slots that are read and that are written.
struct Ragged {
  std::vector<std::int32_t> starts, sources, slots;
};

std::pair<Values, Values> run(const Layer& l, const std::vector<Values>& in, int threads = 2,
                              const Ragged& ragged = {}) {
  PlanBuilder b;
  const auto shapes = shapes_of(l);
  const auto ids = [&](const std::vector<std::int64_t>& shape) {
    std::vector<Id> result;
    for (const std::int64_t size : shape) result.push_back(b.constant(size));
    return result;
  };
  std::vector<PlanBuilder::Tensor> operands;
  const auto type_of = [&](std::size_t i) { return i < 3 ? l.type : i == 6 ? l.state_type : kF32; };
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i] != kAbsent)
      operands.push_back(b.input_of(fmt::format("x{}", i), type_of(i), ids(shapes[i])));
    else
      operands.push_back({operands[0].buffer, ids({0, 0, 0, 0})});
  }
  const std::vector<std::int64_t> out_shape{l.batch, l.length, l.out_heads(), l.values},
      state_shape{l.slots > 0 ? l.slots : l.batch, l.heads(), l.keys, l.values};
  const std::pair<const char*, const std::vector<std::int32_t>*> indices[] = {
      {"starts", &ragged.starts}, {"sources", &ragged.sources}, {"slots", &ragged.slots}};
  for (const auto& [name, values] : indices)
    if (l.slots > 0)
      operands.push_back(b.input_of(name, DType::kInt32, ids({std::ssize(*values)})));
  const std::initializer_list<PlanBuilder::Attribute> attributes = {
      {"rule", std::int64_t{l.rule}},
      {"decay", std::int64_t{l.gate}},
      {"state", std::int64_t{l.has_state}},
      {"scale", kScale}};
  const auto& o = operands;
  const auto y = b.output_of("y", l.type, ids(out_shape)),
             last = b.output_of("state", l.state_type, ids(state_shape));
  if (l.slots > 0)
    b.call("ragged_linear_attention", {o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7], o[8], o[9]},
           {y, last}, attributes);
  else
    b.call("linear_attention", {o[0], o[1], o[2], o[3], o[4], o[5], o[6]}, {y, last}, attributes);
  SessionOptions options;
  options.threads = threads;
  Session session(b.build(), options);
  std::vector<std::vector<std::byte>> bytes(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i] == kAbsent) continue;
    bytes[i].resize(in[i].size() * size_of(type_of(i)));
    for (std::size_t e = 0; e < in[i].size(); ++e)
      set_element(type_of(i), bytes[i], static_cast<std::int64_t>(e), in[i][e]);
    session.set_input(fmt::format("x{}", i),
                      TensorView{type_of(i), shapes[i], bytes[i].data(), Memory::kHost});
  }
  for (const auto& [name, values] : indices)
    if (l.slots > 0) session.set_input(name, {std::ssize(*values)}, *values);
  session.run();
  const auto result = [&](const char* name, DType type, std::int64_t count) {
    const auto* const data = static_cast<const std::byte*>(session.output(name).data);
    const std::vector<std::byte> found(data,
                                       data + static_cast<std::size_t>(count) * size_of(type));
    Values values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(element(type, found, i));
    return values;
  };
  return {result("y", l.type, count_of(out_shape)),
          result("state", l.state_type, count_of(state_shape))};
}

void expect_near(const Values& found, const Values& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 1;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance * largest) << i;
}

void expect_right(const Layer& l, double tolerance = 2e-5, double decay = 0.4) {
  const auto inputs = draw(l, decay);
  const auto [out, state] = run(l, inputs);
  const auto [wanted, last] = recurrence(l, inputs);
  expect_near(out, wanted, tolerance);
  expect_near(state, last, tolerance);
}

TEST(LinearAttentionOnCpu, AllRulesAndLengths) {
  for (const Rule rule : {kLinear, kDelta, kGeneralDelta})
    for (const Gate gate : {kNone, kByHead, kByChannel})
      for (const std::int64_t length : {0, 1, 3, 8, 13, 64, 65, 150}) {
        SCOPED_TRACE(fmt::format("rule {} gate {} length {}", int{rule}, int{gate}, length));
        Layer layer{.rule = rule, .gate = gate, .length = length};
        layer.has_state = length % 2 == 1;
        expect_right(layer);
      }
}

TEST(LinearAttentionOnCpu, HeadsAreSharedEitherWay) {
  for (const Rule rule : {kLinear, kDelta})
    for (const auto& [q, k, v] :
         {std::array<std::int64_t, 3>{6, 2, 2}, {1, 2, 4}, {4, 4, 2}, {2, 1, 6}, {8, 1, 4}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", q, k, v));
      expect_right({.rule = rule,
                    .length = 20,
                    .query_heads = q,
                    .key_heads = k,
                    .value_heads = v,
                    .keys = 16,
                    .values = 32});
    }
}

TEST(LinearAttentionOnCpu, NarrowTypesAreComputedInFloat32) {
  expect_right({.rule = kDelta, .length = 70, .keys = 32, .values = 16, .type = kF16}, 2e-3);
  expect_right(
      {.rule = kDelta, .length = 70, .keys = 32, .values = 16, .type = kBF16, .state_type = kBF16},
      2e-2);
}

/// Decays of whole chunks leave float32's range; gates may also grow.
TEST(LinearAttentionOnCpu, StrongDecaysAndGrowth) {
  for (const Rule rule : {kLinear, kDelta, kGeneralDelta})
    for (const Gate gate : {kByHead, kByChannel}) {
      SCOPED_TRACE(fmt::format("{} {}", int{rule}, int{gate}));
      expect_right({.rule = rule, .gate = gate, .length = 130}, 2e-5, 12);
      expect_right({.rule = rule, .gate = gate, .length = 40}, 1e-4, -0.05);
    }
  Layer closed{.gate = kByHead, .length = 20};
  auto inputs = draw(closed);
  inputs[3][7] = -std::numeric_limits<double>::infinity();  // a gate of 0 forgets all
  const auto found = run(closed, inputs), expected = recurrence(closed, inputs);
  expect_near(found.first, expected.first, 2e-5);
  expect_near(found.second, expected.second, 2e-5);
}

/// A NaN reaches later tokens of its own head alone.
TEST(LinearAttentionOnCpu, NanStaysInItsSequence) {
  for (const Rule rule : {kLinear, kDelta}) {
    const Layer layer{.rule = rule, .length = 40, .batch = 2};
    auto inputs = draw(layer);
    const std::int64_t token = 20;
    inputs[2][static_cast<std::size_t>(token * layer.value_heads * layer.values)] =
        std::numeric_limits<double>::quiet_NaN();
    const Values out = run(layer, inputs).first;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / layer.values, head = row % layer.out_heads();
      const bool is_behind =
          head == 0 && row / layer.out_heads() >= token && row / layer.out_heads() < layer.length;
      if (!is_behind) {
        ASSERT_FALSE(std::isnan(out[i])) << i;
      } else if (static_cast<std::int64_t>(i) % layer.values == 0) {
        ASSERT_TRUE(std::isnan(out[i])) << i;
      }
    }
  }
}

/// Factors beyond the range of the values' type, and of float32: infinite or NaN from there on,
/// in their own sequence alone.
TEST(LinearAttentionOnCpu, GatesMayOverflow) {
  for (const DType type : {kF16, kBF16, kF32})
    for (const Rule rule : {kLinear, kDelta})
      for (const double gate : {30.0, 200.0}) {
        SCOPED_TRACE(fmt::format("{} {} {}", to_string(type), int{rule}, gate));
        const Layer layer{.rule = rule, .length = 40, .batch = 2, .type = type};
        auto inputs = draw(layer);
        const std::int64_t token = 20;
        for (std::int64_t t = token; t < layer.length; ++t)
          inputs[3][static_cast<std::size_t>(t * layer.heads())] = gate;
        const auto [out, state] = run(layer, inputs);
        const auto expected = recurrence(layer, inputs).first;
        for (std::size_t i = 0; i < out.size(); ++i) {
          const auto row = static_cast<std::int64_t>(i) / layer.values;
          const bool is_behind = row % layer.out_heads() == 0 && row / layer.out_heads() >= token &&
                                 row / layer.out_heads() < layer.length;
          if (!is_behind) {
            ASSERT_NEAR(out[i], expected[i], type == kF32 ? 1e-4 : 0.2) << i;
          } else if (row / layer.out_heads() > token + 10) {
            ASSERT_FALSE(std::isfinite(out[i])) << i;
          }
        }
        ASSERT_FALSE(std::isfinite(state[0]));
        ASSERT_TRUE(std::isfinite(state[static_cast<std::size_t>(layer.keys * layer.values)]));
      }
}

/// Sequences of no token, of one, and of more than a chunk, whose states are wanted within; a token
/// of padding.
TEST(LinearAttentionOnCpu, RaggedBatchesAreTheirSequences) {
  for (const Rule rule : {kLinear, kDelta, kGeneralDelta}) {
    SCOPED_TRACE(int{rule});
    const Layer all{.rule = rule, .length = 203, .batch = 1, .keys = 16, .values = 8, .slots = 6};
    auto inputs = draw(all);
    Ragged ragged{{0, 130, 130, 131, 202}, {}, {}};
    ragged.sources.assign(203, 99);
    ragged.slots.assign(203, -1);
    ragged.sources[0] = -1;
    ragged.sources[130] = 3;
    ragged.sources[131] = 5;
    ragged.slots[99] = 1;  // within a chunk
    ragged.slots[129] = 0;
    ragged.slots[130] = 3;  // in place
    ragged.slots[201] = 4;
    const auto [out, states] = run(all, inputs, 2, ragged);
    const std::int64_t size = all.heads() * all.keys * all.values;
    const auto slot = [&](const Values& pool, std::int64_t i) {
      return Values(pool.begin() + i * size, pool.begin() + (i + 1) * size);
    };
    const auto check = [&](std::int64_t first, std::int64_t end, std::int64_t source,
                           std::int64_t target) {
      Layer one = all;
      one.slots = 0;
      one.length = end - first;
      std::vector<Values> own;
      for (std::size_t i = 0; i < 6; ++i) {
        const std::int64_t row = std::ssize(inputs[i]) / all.length;
        own.emplace_back(inputs[i].begin() + first * row, inputs[i].begin() + end * row);
      }
      own.push_back(source < 0 ? Values(static_cast<std::size_t>(size)) : slot(inputs[6], source));
      const auto [wanted, last] = recurrence(one, own);
      const std::int64_t row = all.out_heads() * all.values;
      expect_near({out.begin() + first * row, out.begin() + end * row}, wanted, 2e-5);
      expect_near(slot(states, target), last, 2e-5);
    };
    check(0, 100, -1, 1);
    check(0, 130, -1, 0);
    check(130, 131, 3, 3);
    check(131, 202, 5, 4);
    for (const std::int64_t kept : {2, 5})
      expect_near(slot(states, kept), slot(inputs[6], kept), 1e-7);
  }
}

TEST(LinearAttentionOnCpu, TheNumberOfThreadsDoesNotMatter) {
  const Layer layer{.rule = kDelta, .length = 100, .keys = 64, .values = 64};
  const auto inputs = draw(layer);
  EXPECT_EQ(run(layer, inputs, 1), run(layer, inputs, 3));
}

TEST(LinearAttentionOnCpu, ContinuesFromItsState) {
  const Layer whole{.rule = kDelta, .length = 33, .batch = 1};
  const auto inputs = draw(whole);
  Values state = inputs[6];
  Layer one = whole;
  one.length = 1;
  for (std::int64_t t = 0; t < whole.length; ++t) {
    std::vector<Values> now;
    for (std::size_t i = 0; i < 6; ++i) {
      const std::int64_t row = std::ssize(inputs[i]) / whole.length;
      now.emplace_back(inputs[i].begin() + t * row, inputs[i].begin() + (t + 1) * row);
    }
    now.push_back(state);
    state = run(one, now).second;
  }
  expect_near(state, recurrence(whole, inputs).second, 2e-5);
}

}  // namespace
}  // namespace sinter::testing
