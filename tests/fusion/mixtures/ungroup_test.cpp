// SPDX-License-Identifier: Apache-2.0
// Grouped matmuls that a target lacks: every group's matmul gives the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/passes/passes.h"
#include "ir/mixture/expert_rows.h"
#include "ir/reference/evaluate.h"
#include "tests/fusion/support.h"

namespace sinter::fusion::ungroup {
namespace {

using testing::HasSubstr;

Tensor numbers(DType type, Ints shape, int seed) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>((i * 7919 + seed * 104729) % 31 - 15) / 8);
  return Tensor::from_doubles(type, std::move(shape), values);
}

/// Two matmuls of a mixture of 3 experts, each token choosing 2; choice 3 is none.
Graph mixture(bool transposed, bool quantized) {
  GraphBuilder b;
  const Dim tokens = Dim::symbol("n");
  b.range("n", {0, 64});
  const ValueId x = b.input("x", {DType::kFloat32, {tokens, Dim(4)}});
  const ValueId choices = b.input("choices", {DType::kInt32, {tokens, Dim(2)}});
  const ValueId shares = b.input("shares", {DType::kFloat32, {tokens, Dim(2)}});
  const ir::ExpertRows rows = ir::sort_by_expert(b, choices, 3);
  const auto product = [&](ValueId h, std::int64_t k, std::int64_t n, int seed) {
    if (quantized)
      return b.add("GroupedMatMul",
                   {h, b.constant(numbers(DType::kInt8, {3, n, k}, seed)),
                    b.constant(numbers(DType::kFloat32, {3, n, 1}, seed)), rows.offsets},
                   {{"w", std::string("i8 * f32 row")}});
    const Ints shape = transposed ? Ints{3, n, k} : Ints{3, k, n};
    return b.add("GroupedMatMul",
                 {h, b.constant(numbers(DType::kFloat32, shape, seed)), rows.offsets},
                 {{"transposed", std::int64_t{transposed}}});
  };
  const ValueId h = b.add("Relu", {product(ir::take_tokens(b, rows, x), 4, 5, 1)});
  b.output("y", ir::combine_rows(b, rows, product(h, 5, 4, 2), shares));
  return b.finish();
}

TEST(Ungroup, EveryGroupGivesTheSame) {
  for (const bool transposed : {false, true})
    for (const bool quantized : {false, true}) {
      const Graph graph = mixture(transposed, quantized);
      Context context;
      const Graph all = ungroup_matmuls(graph, context);
      for (const ir::Node& node : all.nodes()) EXPECT_NE(node.op->name, "GroupedMatMul");
      ASSERT_EQ(context.decisions.size(), 2u);
      EXPECT_THAT(context.decisions[0].reason,
                  HasSubstr("this target has no grouped matmul of f32"));
      for (const Ints& choices :
           {Ints{}, Ints{0, 1, 2, 0, 1, 2}, Ints{1, 1, 1, 1}, Ints{3, 3, 2, 3}, Ints{2, 0}}) {
        const auto count = std::ssize(choices) / 2;
        const std::vector<Tensor> inputs = {numbers(DType::kFloat32, {count, 4}, 3),
                                            Tensor::from_ints(DType::kInt32, {count, 2}, choices),
                                            numbers(DType::kFloat32, {count, 2}, 4)};
        const auto expected = ir::evaluate(graph, inputs)[0].to_doubles(),
                   found = ir::evaluate(all, inputs)[0].to_doubles();
        ASSERT_EQ(expected.size(), found.size());
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
      }
    }
}

TEST(Ungroup, WhatTheTargetHasStays) {
  Context context;
  context.target.formats.push_back(
      {.op = "GroupedMatMul", .left = DType::kFloat32, .right = "f32"});
  const Graph graph = mixture(true, false);
  EXPECT_TRUE(ir::structurally_equal(ungroup_matmuls(graph, context), graph));
  EXPECT_TRUE(context.decisions.empty());
}

/// As for a matmul, the weights become plain numbers: only the chosen groups are computed.
TEST(Ungroup, WeightsInAFormatThatTheTargetLacksAreDequantized) {
  Context context;
  context.target.formats.push_back(
      {.op = "GroupedMatMul", .left = DType::kFloat32, .right = "f32"});
  const Graph graph = mixture(true, true), plain = ungroup_matmuls(graph, context);
  ASSERT_EQ(context.decisions.size(), 2u);
  EXPECT_THAT(context.decisions[0].reason, HasSubstr("its weights are dequantized"));
  std::size_t grouped = 0;
  for (const ir::Node& node : plain.nodes()) grouped += node.op->name == "GroupedMatMul";
  EXPECT_EQ(grouped, 2u);
  test::expect_equivalent(graph, plain, 1e-5);
}

}  // namespace
}  // namespace sinter::fusion::ungroup
