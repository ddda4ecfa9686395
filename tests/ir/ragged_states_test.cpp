// SPDX-License-Identifier: Apache-2.0
// LinearAttention and CausalConv of ragged batches: sequences in parts, in slots, are the whole
// sequences by themselves.
#include <numeric>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/recurrence/linear_attention.h"
#include "ir/reference/evaluate.h"
#include "tests/ir/expect_error.h"

namespace sinter::ir {
namespace {

constexpr DType kF64 = DType::kFloat64, kI32 = DType::kInt32;

Tensor some(const Ints& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-0.9, 0.4);
  std::vector<double> values(static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies())));
  for (double& value : values) value = uniform(random);
  return Tensor::from_doubles(kF64, shape, values);
}
Tensor integers(const std::vector<double>& values) {
  return Tensor::from_doubles(kI32, {std::ssize(values)}, values);
}
/// Rows [first, end) of the dimension `axis`, in front of which all are 1.
Tensor rows(const Tensor& x, std::size_t axis, std::int64_t first, std::int64_t end) {
  Ints shape = x.shape();
  const std::int64_t row = x.element_count() / shape[axis];
  shape[axis] = end - first;
  const auto all = x.to_doubles();
  return Tensor::from_doubles(x.dtype(), shape,
                              {all.begin() + first * row, all.begin() + end * row});
}

/// What a graph of one operator gives, or of those that it is made of.
Tensor evaluated(const char* op, const Attrs& attrs, const std::vector<Tensor>& inputs,
                 bool is_decomposed) {
  GraphBuilder b;
  std::vector<ValueId> values;
  for (const Tensor& input : inputs)
    values.push_back(b.input("x" + std::to_string(values.size()), input.type()));
  ValueId result = b.add(op, values, attrs);
  if (is_decomposed) {
    const Node node = *b.producer(result);
    result = node.op->composite().decompose(b, node, values)[0];
  }
  b.output("y", result);
  return evaluate(b.finish(), inputs)[0];
}

/// Three sequences of 4, 0 and 2 tokens and a token of padding; the first one begins with zeros,
/// and keeps a state within; the last one goes on from slot 3, which stays as it is.
const std::vector<double> kStarts{0, 4, 4, 6}, kSources{-1, 9, 9, 9, 3, 9, 0},
    kSlots{-1, 2, -1, 0, -1, 4, -1};

TEST(RaggedStates, LinearAttentionTakesSequencesByThemselves) {
  for (const char* rule : {"linear", "delta", "general_delta"}) {
    SCOPED_TRACE(rule);
    const std::string name = rule;
    std::vector<Tensor> tokens{some({1, 7, 2, 4}, 1), some({1, 7, 2, 4}, 2), some({1, 7, 2, 3}, 3),
                               some({1, 7, 2}, 4)};
    if (name == "delta") tokens.push_back(some({1, 7, 2}, 5));
    if (name == "general_delta") tokens.push_back(some({1, 7, 2, 8}, 6));
    const Tensor pool = some({5, 2, 4, 3}, 7);
    Attrs attrs{{"rule", name}, {"scale", 0.5}, {"decay", std::int64_t{1}}};
    attrs.set("state", std::int64_t{1});
    const OpDef& op = get_op("LinearAttention");
    const auto alone = [&](std::int64_t first, std::int64_t end, const Tensor& state) {
      std::vector<Tensor> inputs;
      for (const Tensor& each : tokens) inputs.push_back(rows(each, 1, first, end));
      inputs.push_back(state);
      return evaluate_op(op, attrs, inputs);
    };
    const Tensor zeros = Tensor::from_doubles(kF64, {1, 2, 4, 3}, std::vector<double>(24));
    const auto first = alone(0, 4, zeros), half = alone(0, 2, zeros),
               last = alone(4, 6, rows(pool, 0, 3, 4));
    std::vector<Tensor> inputs = tokens;
    inputs.insert(inputs.end(), {pool, integers(kStarts), integers(kSources), integers(kSlots)});
    attrs.set("ragged", std::int64_t{1});
    const auto all = evaluate_op(op, attrs, inputs);
    EXPECT_EQ(rows(all[0], 1, 0, 4).to_doubles(), first[0].to_doubles());
    EXPECT_EQ(rows(all[0], 1, 4, 6).to_doubles(), last[0].to_doubles());
    const auto slot = [&](std::int64_t s) { return rows(all[1], 0, s, s + 1).to_doubles(); };
    EXPECT_EQ(slot(0), first[1].to_doubles());
    EXPECT_EQ(slot(2), half[1].to_doubles());
    EXPECT_EQ(slot(4), last[1].to_doubles());
    EXPECT_EQ(slot(1), rows(pool, 0, 1, 2).to_doubles());
    EXPECT_EQ(slot(3), rows(pool, 0, 3, 4).to_doubles());
  }
}

void check_convolution(bool is_decomposed) {
  constexpr std::int64_t kChannels = 2, kTaps = 3, kDilation = 2, kKept = 4;
  const Tensor x = some({7, kChannels}, 1), weights = some({kChannels, kTaps}, 2),
               pool = some({5, kKept, kChannels}, 3), bias = some({kChannels}, 4);
  const std::vector<Tensor> rows_of_tokens{x, pool, integers({0, 1, 2, 3, 0, 1, 0}),
                                           integers({-1, -1, -1, -1, 3, 3, -1})};
  std::vector<Tensor> to_convolve = rows_of_tokens, to_store = rows_of_tokens;
  to_convolve.insert(to_convolve.end(), {weights, bias});
  to_store.insert(to_store.end(), {integers(kSlots), integers({1, 3, 5, 1})});
  const std::vector<Tensor> all{
      evaluated("CausalConv", {{"dilation", kDilation}}, to_convolve, is_decomposed),
      evaluated("CausalConvStates", {}, to_store, is_decomposed)};
  // The inputs of a sequence up to token `t`, those it had before in front.
  const auto before = [&](std::int64_t first, std::int64_t source) {
    std::vector<double> inputs(static_cast<std::size_t>(kKept * kChannels));
    if (source >= 0) inputs = rows(pool, 0, source, source + 1).to_doubles();
    for (std::int64_t i = first * kChannels; i < 7 * kChannels; ++i) inputs.push_back(x.at(i));
    return inputs;
  };
  for (const auto& [first, count, source] : {std::tuple{0, 4, -1}, std::tuple{4, 2, 3}}) {
    const auto inputs = before(first, source);
    for (std::int64_t t = 0; t < count; ++t)
      for (std::int64_t c = 0; c < kChannels; ++c) {
        double sum = bias.at(c);
        for (std::int64_t tap = 0; tap < kTaps; ++tap)
          sum += weights.at(c * kTaps + tap) *
                 inputs[static_cast<std::size_t>((t + tap * kDilation) * kChannels + c)];
        EXPECT_NEAR(all[0].at((first + t) * kChannels + c), sum, 1e-12) << first << " " << t;
      }
  }
  const auto kept = [&](std::int64_t first, std::int64_t source, std::int64_t tokens) {
    const auto inputs = before(first, source);
    const auto begin = inputs.begin() + tokens * kChannels;
    return std::vector<double>(begin, begin + kKept * kChannels);
  };
  const auto slot = [&](std::int64_t s) { return rows(all[1], 0, s, s + 1).to_doubles(); };
  EXPECT_EQ(slot(2), kept(0, -1, 2));
  EXPECT_EQ(slot(0), kept(0, -1, 4));
  EXPECT_EQ(slot(4), kept(4, 3, 2));
  EXPECT_EQ(slot(1), rows(pool, 0, 1, 2).to_doubles());
}

TEST(RaggedStates, CausalConvTakesSequencesByThemselves) {
  for (const bool is_decomposed : {false, true}) check_convolution(is_decomposed);
}

TEST(RaggedStates, WhatDoesNotFitIsRefused) {
  using testing::HasSubstr;
  const auto refused = [](const auto& change) {
    std::vector<TensorType> types{{kF64, {1, 7, 2, 4}}, {kF64, {1, 7, 2, 4}}, {kF64, {1, 7, 2, 3}},
                                  {kF64, {5, 2, 4, 3}}, {kI32, {4}},          {kI32, {7}},
                                  {kI32, {7}}};
    Attrs attrs{{"rule", std::string("linear")},
                {"scale", 1.0},
                {"decay", std::int64_t{0}},
                {"state", std::int64_t{1}},
                {"ragged", std::int64_t{1}}};
    change(types, attrs);
    return error_of([&] { linear_attention(attrs, types); });
  };
  using Types = std::vector<TensorType>;
  EXPECT_THAT(refused([](Types&, Attrs& attrs) { attrs.set("state", std::int64_t{0}); }),
              HasSubstr("has its states in slots"));
  EXPECT_THAT(refused([](Types& types, Attrs&) { types[4].dtype = DType::kInt64; }),
              HasSubstr("starts, sources and slots are i32"));
  EXPECT_THAT(refused([](Types& types, Attrs&) { types[5].shape = {Dim(6)}; }),
              HasSubstr("the sources must be [7]"));
  EXPECT_THAT(refused([](Types& types, Attrs&) {
                types[3].shape = {Dim(5), Dim(2), Dim(3), Dim(4)};
              }),
              HasSubstr("the state must be [5, 2, 4, 3]"));
}

}  // namespace
}  // namespace sinter::ir
