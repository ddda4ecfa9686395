// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: shares, types, and rows sorted by expert and combined again.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/mixture/expert_rows.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/ir/expect_error.h"

namespace sinter::ir::mixtures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Choices and shares of one Route; checks that its decomposition agrees.
std::vector<Tensor> route(const std::vector<Tensor>& inputs, const Attrs& attrs) {
  GraphBuilder builder;
  std::vector<ValueId> ids;
  for (const Tensor& each : inputs)
    ids.push_back(builder.input("x" + std::to_string(ids.size()), each.type()));
  const auto results = builder.add_multi("Route", ids, attrs);
  builder.output("choices", results[0]);
  builder.output("shares", results[1]);
  const Graph graph = builder.finish();
  const Graph simple = rewrite(
      graph, [](GraphBuilder& b, const Graph&, const Node& node, std::span<const ValueId> values) {
        return std::optional(node.op->composite().decompose(b, node, values));
      });
  const auto result = evaluate(graph, inputs), decomposed = evaluate(simple, inputs);
  EXPECT_EQ(result[0].to_ints(), decomposed[0].to_ints());
  for (std::int64_t i = 0; i < result[1].element_count(); ++i) {
    const double a = result[1].at(i), b = decomposed[1].at(i);
    EXPECT_TRUE(std::isnan(a) ? std::isnan(b) : std::abs(a - b) < 1e-6)
        << i << ": " << a << ", " << b;
  }
  return result;
}

Tensor floats(Ints shape, const std::vector<double>& values) {
  return Tensor::from_doubles(DType::kFloat32, std::move(shape), values);
}

Attrs attrs(std::int64_t k, const char* scores, Attrs more = {}) {
  more.set("k", k);
  more.set("scores", std::string(scores));
  return more;
}

std::vector<double> rounded(const Tensor& tensor) {
  std::vector<double> values = tensor.to_doubles();
  for (double& value : values) value = std::round(value * 1e4) / 1e4;
  return values;
}

TEST(Route, SharesAreScoresWithoutTheBias) {
  const Tensor logits = floats({1, 4}, {0, std::log(2.0), std::log(3.0), std::log(4.0)});
  auto found = route({logits}, attrs(2, "softmax"));
  EXPECT_THAT(found[0].to_ints(), ElementsAre(3, 2));
  EXPECT_THAT(rounded(found[1]), ElementsAre(0.4, 0.3));
  found = route({logits}, attrs(2, "softmax", {{"normalise", std::int64_t{1}}, {"scale", 7.0}}));
  EXPECT_THAT(rounded(found[1]), ElementsAre(4, 3));
  const Tensor bias = floats({4}, {1, 0, 0, 0});
  found = route({logits, bias}, attrs(2, "sigmoid"));
  EXPECT_THAT(found[0].to_ints(), ElementsAre(0, 3));
  EXPECT_THAT(rounded(found[1]), ElementsAre(0.5, 0.8));
  EXPECT_THAT(rounded(route({logits}, attrs(1, "none"))[1]), ElementsAre(1.3863));
}

TEST(Route, EqualScoresChooseTheFirst) {
  EXPECT_THAT(route({floats({1, 4}, {1, 1, 1, 1})}, attrs(3, "softmax"))[0].to_ints(),
              ElementsAre(0, 1, 2));
}

TEST(Route, OnlyKeptGroupsAreChosenFrom) {
  const Attrs two = {{"groups", std::int64_t{2}}, {"kept_groups", std::int64_t{1}}};
  const Tensor logits = floats({1, 4}, {3, 0, 2, 2});
  EXPECT_THAT(route({logits}, attrs(2, "none", two))[0].to_ints(), ElementsAre(0, 1));
  Attrs sums = two;
  sums.set("group_scores", std::int64_t{2});
  EXPECT_THAT(route({logits}, attrs(2, "none", sums))[0].to_ints(), ElementsAre(2, 3));
  // Or all, others as if their scores were 0.
  sums.set("zero_outside", std::int64_t{1});
  EXPECT_THAT(route({floats({1, 4}, {9, -9, -1, 3})}, attrs(3, "none", sums))[0].to_ints(),
              ElementsAre(3, 0, 1));
  EXPECT_THAT(error_of([&] { route({logits}, attrs(3, "none", two)); }),
              HasSubstr("k is 3, but there are 2 experts to choose from"));
}

TEST(Route, SparsemixerWeighsWhatIsNear) {
  // 9.9 is within 2% of 10, 1 is not; without 10 only 9.9 is near.
  const auto found = route({floats({1, 3}, {10, 1, 9.9})}, attrs(2, "sparsemixer"));
  EXPECT_THAT(found[0].to_ints(), ElementsAre(0, 2));
  EXPECT_THAT(rounded(found[1]), ElementsAre(0.525, 1));
}

TEST(Route, ANanConcernsItsTokenAlone) {
  const auto found = route({floats({2, 3}, {kNan, 1, 2, 0, 0, 0})}, attrs(2, "softmax"));
  for (const std::int64_t choice : found[0].to_ints()) EXPECT_TRUE(choice >= 0 && choice < 3);
  EXPECT_TRUE(std::isnan(found[1].at(0)));
  EXPECT_NEAR(found[1].at(2), 1.0 / 3, 1e-6);
}

TEST(Route, WhatDoesNotFitIsRefused) {
  const auto error = [](std::vector<Tensor> inputs, const Attrs& own) {
    return error_of([&] { route(inputs, own); });
  };
  const Tensor x = floats({1, 4}, {1, 2, 3, 4});
  EXPECT_THAT(error({x}, attrs(5, "softmax")), HasSubstr("k is 5, but there are 4 experts"));
  EXPECT_THAT(error({x}, attrs(0, "softmax")), HasSubstr("k is 0"));
  EXPECT_THAT(error({x}, attrs(1, "best")), HasSubstr("no scores are named 'best'"));
  EXPECT_THAT(error({x, floats({3}, {1, 2, 3})}, attrs(1, "sigmoid")), HasSubstr("the bias must"));
  EXPECT_THAT(error({x}, attrs(1, "softmax", {{"groups", std::int64_t{3}}})),
              HasSubstr("1 of 3 groups of 4 experts"));
}

TEST(GroupedMatMul, WhatDoesNotFitIsRefused) {
  const auto error = [](const std::vector<TensorType>& types, const Attrs& own = {}) {
    GraphBuilder builder;
    std::vector<ValueId> ids;
    for (const TensorType& type : types)
      ids.push_back(builder.input("x" + std::to_string(ids.size()), type));
    return error_of([&] { builder.add("GroupedMatMul", ids, own); });
  };
  const auto f32 = [](Shape shape) { return TensorType{DType::kFloat32, std::move(shape)}; };
  const TensorType x = f32({5, 4}), w = f32({3, 4, 2}), offsets{DType::kInt32, {Dim(4)}};
  EXPECT_THAT(error({x, f32({3, 5, 2}), offsets}), HasSubstr("the last dimension of the first"));
  EXPECT_THAT(error({x, f32({4, 2}), offsets}), HasSubstr("a matrix for each group"));
  EXPECT_THAT(error({x, w, {DType::kInt32, {Dim(3)}}}), HasSubstr("one more than the groups"));
  EXPECT_THAT(error({x, w, {DType::kInt64, {Dim(4)}}}),
              HasSubstr("offsets must be a vector of i32"));
  const TensorType codes{DType::kInt8, {Dim(3), Dim(2), Dim(4)}};
  EXPECT_THAT(error({x, codes, f32({2, 2, 1}), offsets}, {{"w", std::string("i8 * f32 row")}}),
              HasSubstr("each group needs weights, scales"));
}

/// Tokens [t, 1] through experts that multiply by 10, 100, 1000, weighed.
TEST(ExpertRows, SortMultiplyAndCombine) {
  GraphBuilder b;
  const Dim tokens = Dim::symbol("tokens");
  b.range("tokens", {0, 8});
  const ValueId x = b.input("x", {DType::kFloat32, {tokens, Dim(1)}});
  const ValueId choices = b.input("choices", {DType::kInt32, {tokens, Dim(2)}});
  const ValueId shares = b.input("shares", {DType::kFloat32, {tokens, Dim(2)}});
  const ExpertRows rows = sort_by_expert(b, choices, 3);
  const ValueId w = b.constant(floats({3, 1, 1}, {10, 100, 1000}));
  const ValueId y = b.add("GroupedMatMul", {take_tokens(b, rows, x), w, rows.offsets});
  const ValueId bias = take_experts(b, rows, b.constant(floats({3, 1}, {0, 0, 1})));
  b.output("y", combine_rows(b, rows, b.add("Add", {y, bias}), shares));
  const Graph graph = b.finish();
  EXPECT_TRUE(structurally_equal(parse_graph(print(graph)), graph));
  const auto run = [&](const std::vector<double>& tokens_of, const Ints& chosen,
                       const std::vector<double>& factors) {
    const auto count = std::ssize(tokens_of);
    const std::vector<Tensor> inputs = {floats({count, 1}, tokens_of),
                                        Tensor::from_ints(DType::kInt32, {count, 2}, chosen),
                                        floats({count, 2}, factors)};
    return evaluate(graph, inputs)[0].to_doubles();
  };
  EXPECT_THAT(run({1, 2, 3}, {2, 0, 0, 1, 2, 1}, {1, 1, 1, 0.5, 0, 1}),
              ElementsAre(1011, 120, 300));
  // All choose one expert; and nobody any.
  EXPECT_THAT(run({1, 2}, {1, 1, 1, 1}, {1, 0, 1, 0}), ElementsAre(100, 200));
  EXPECT_THAT(run({1, 2}, {3, 3, 0, 3}, {0, 0, 1, 0}), ElementsAre(0, 20));
  EXPECT_THAT(run({}, {}, {}), ElementsAre());
}

}  // namespace
}  // namespace sinter::ir::mixtures
