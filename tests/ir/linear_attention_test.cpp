// SPDX-License-Identifier: Apache-2.0
// LinearAttention: its states, its loop, and what it refuses. Goldens check its first result.
#include "ir/recurrence/linear_attention.h"

#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "tests/ir/expect_error.h"

namespace sinter::ir {
namespace {

constexpr DType kF32 = DType::kFloat32;

struct Layer {
  std::string rule;
  std::int64_t query_heads, key_heads, value_heads;
  bool by_channel, has_state;
};

TensorType type(Ints shape, DType dtype = kF32) {
  return {dtype, Shape(shape.begin(), shape.end())};
}

Attrs attrs_of(const Layer& layer) {
  return {{"rule", layer.rule},
          {"scale", 0.5},
          {"decay", std::int64_t{1}},
          {"state", static_cast<std::int64_t>(layer.has_state)}};
}

std::vector<TensorType> types_of(const Layer& layer, std::int64_t length) {
  const std::int64_t heads = std::max(layer.key_heads, layer.value_heads);
  std::vector<TensorType> types{type({2, length, layer.query_heads, 4}),
                                type({2, length, layer.key_heads, 4}),
                                type({2, length, layer.value_heads, 3})};
  types.push_back(layer.by_channel ? type({2, length, heads, 4}) : type({2, length, heads}));
  if (layer.rule == "delta") types.push_back(type({2, length, heads}));
  if (layer.rule == "general_delta") types.push_back(type({2, length, heads, 8}));
  if (layer.has_state) types.push_back(type({2, heads, 4, 3}));
  return types;
}

Graph graph_of(const Layer& layer, std::int64_t length, bool is_loop) {
  GraphBuilder b;
  std::vector<ValueId> inputs;
  for (const TensorType& each : types_of(layer, length))
    inputs.push_back(b.input(fmt::format("x{}", inputs.size()), each));
  std::vector<ValueId> results = b.add_multi("LinearAttention", inputs, attrs_of(layer));
  if (is_loop) {
    const Node node = *b.producer(results[0]);
    results = node.op->composite().decompose(b, node, inputs);
  }
  b.output("out", results[0]);
  b.output("new_state", results[1]);
  return b.finish();
}

std::vector<Tensor> draw(std::span<const TensorType> types) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-0.9, 0.1);
  std::vector<Tensor> tensors;
  for (const TensorType& each : types) {
    Ints shape;
    std::int64_t count = 1;
    for (const Dim& dim : each.shape) {
      shape.push_back(dim.value());
      count *= dim.value();
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = uniform(random);
    tensors.push_back(Tensor::from_doubles(each.dtype, shape, values));
  }
  return tensors;
}

void expect_near(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(to_string(found.type()), to_string(expected.type()));
  for (std::int64_t i = 0; i < expected.element_count(); ++i)
    ASSERT_NEAR(found.at(i), expected.at(i), 1e-5) << i;
}

TEST(LinearAttention, DecomposesIntoALoop) {
  for (const std::string rule : {"linear", "delta", "general_delta"})
    for (const bool by_channel : {false, true})
      for (const auto& [query, key, value] :
           {std::array<std::int64_t, 3>{2, 2, 2}, {6, 1, 3}, {1, 4, 2}, {3, 3, 1}}) {
        const Layer layer{rule, query, key, value, by_channel, query != 6};
        SCOPED_TRACE(fmt::format("{} {} {} {}", rule, by_channel, query, key));
        const auto inputs = draw(types_of(layer, 5));
        const auto expected = evaluate(graph_of(layer, 5, false), inputs),
                   found = evaluate(graph_of(layer, 5, true), inputs);
        expect_near(found[0], expected[0]);
        expect_near(found[1], expected[1]);
      }
}

/// Two prompts with the state handed over are one: what decoding token by token relies on.
TEST(LinearAttention, ContinuesFromItsState) {
  for (const std::string rule : {"linear", "delta", "general_delta"}) {
    const Layer whole{rule, 2, 2, 2, false, true};
    const auto inputs = draw(types_of(whole, 7));
    const auto expected = evaluate(graph_of(whole, 7, false), inputs);
    Tensor state = inputs.back();
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, 7}}) {
      std::vector<Tensor> part;
      for (std::size_t i = 0; i + 1 < inputs.size(); ++i) {
        Ints shape = inputs[i].shape();
        const std::int64_t row = inputs[i].element_count() / (2 * 7);
        std::vector<double> values;
        for (std::int64_t b = 0; b < 2; ++b)
          for (std::int64_t at = begin * row; at < end * row; ++at)
            values.push_back(inputs[i].at(b * 7 * row + at));
        shape[1] = end - begin;
        part.push_back(Tensor::from_doubles(kF32, shape, values));
      }
      part.push_back(state);
      state = evaluate(graph_of(whole, end - begin, false), part)[1];
    }
    expect_near(state, expected[1]);
  }
}

TEST(LinearAttention, TypesOfResults) {
  const Layer layer{"delta", 4, 2, 2, false, false};
  auto types = types_of(layer, 3);
  for (std::size_t i = 0; i < 3; ++i) types[i].dtype = DType::kFloat16;
  const OpDef& op = get_op("LinearAttention");
  auto results = op.infer(attrs_of(layer), types);
  EXPECT_EQ(to_string(results[0]), "f16[2, 3, 4, 3]");
  EXPECT_EQ(to_string(results[1]), "f32[2, 2, 4, 3]");
  Layer stateful = layer;
  stateful.has_state = true;
  types.push_back(type({2, 2, 4, 3}, DType::kBFloat16));
  results = op.infer(attrs_of(stateful), types);
  EXPECT_EQ(to_string(results[1]), "bf16[2, 2, 4, 3]");
}

TEST(LinearAttention, RefusesWhatDoesNotFit) {
  const Layer layer{"delta", 2, 2, 2, false, true};
  const auto refused = [&](const auto& change, const Layer& of) {
    auto types = types_of(of, 5);
    Attrs attrs = attrs_of(of);
    change(types, attrs);
    return error_of([&] { linear_attention(attrs, types); });
  };
  using Types = std::vector<TensorType>;
  using testing::HasSubstr;
  EXPECT_THAT(refused([](Types&, Attrs& attrs) { attrs.set("rule", std::string("gated")); }, layer),
              HasSubstr("rule is linear, delta or general_delta, not gated"));
  EXPECT_THAT(refused([](Types& types, Attrs&) { types.pop_back(); }, layer),
              HasSubstr("takes 6 inputs"));
  EXPECT_THAT(refused(
                  [](Types& types, Attrs&) {
                    types.back() = type({2, 2, 3, 4});
                  },
                  layer),
              HasSubstr("the state must be [2, 2, 4, 3]"));
  EXPECT_THAT(refused(
                  [](Types& types, Attrs&) {
                    types[3] = type({2, 5, 1});
                  },
                  layer),
              HasSubstr("the decay must be [2, 5, 2]"));
  EXPECT_THAT(refused(
                  [](Types& types, Attrs&) {
                    types[4] = type({2, 5, 2}, DType::kInt32);
                  },
                  layer),
              HasSubstr("needs floats of 16 bits or more"));
  EXPECT_THAT(refused([](Types& types, Attrs&) { types[0].dtype = DType::kFloat16; }, layer),
              HasSubstr("must share one element type"));
  EXPECT_THAT(refused([](Types&, Attrs&) {}, Layer{"linear", 2, 3, 2, false, false}),
              HasSubstr("heads of keys and values: 3 and 2; the lesser must divide the greater"));
  EXPECT_THAT(refused([](Types&, Attrs&) {}, Layer{"linear", 3, 2, 2, false, false}),
              HasSubstr("heads of queries and states: 3 and 2"));
  EXPECT_THAT(
      refused([](Types& types, Attrs&) { types[1].shape[2] = Dim::symbol("heads"); }, layer),
      HasSubstr("must be a positive constant"));
}

}  // namespace
}  // namespace sinter::ir
