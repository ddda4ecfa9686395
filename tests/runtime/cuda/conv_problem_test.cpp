// SPDX-License-Identifier: Apache-2.0
// Convolutions with sizes bound: sizes and strides as libraries take them.
#include "runtime/cuda/cudnn/conv_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/cpu/conv_case.h"

namespace sinter::testing {
namespace {

using runtime::ConvProblem;
using ::testing::ElementsAre;

ConvProblem problem_of(const ConvCase& test, fb::MathMode math = fb::MathMode::Default) {
  PlanBuilder builder;
  fb::ConvStepT step = test.step(builder);
  step.math = math;
  step.input = step.weight = step.output = builder.arena(DType::kFloat16, {builder.constant(1)});
  if (test.bias) step.bias = 0;
  if (test.residual) step.residual = 0;
  return runtime::bind_conv(builder.meta, step, plan::evaluate_expressions(builder.meta, {}));
}

ConvCase two_dimensions(bool channels_last) {
  return {"", channels_last, 2, 6, 8, 3, {5, 7}, {3, 1}, {2, 1}, {1, 2}, {1, 0}, {0, 3}};
}

TEST(ConvProblem, ChannelsLastAreStrides) {
  const ConvProblem problem = problem_of(two_dimensions(true));
  EXPECT_EQ(problem.dtype, DType::kFloat16);
  EXPECT_THAT(problem.input.sizes, ElementsAre(2, 6, 5, 7));
  EXPECT_THAT(problem.input.strides, ElementsAre(5 * 7 * 6, 1, 7 * 6, 6));
  EXPECT_THAT(problem.weight.sizes, ElementsAre(8, 2, 3, 1));
  EXPECT_THAT(problem.weight.strides, ElementsAre(3 * 2, 1, 2, 2));
  EXPECT_THAT(problem.output.sizes, ElementsAre(2, 8, 2, 10));
  EXPECT_THAT(problem.output.strides, ElementsAre(2 * 10 * 8, 1, 10 * 8, 8));
  EXPECT_EQ(problem.group(), 3);
}

TEST(ConvProblem, ChannelsFirstAreDense) {
  const ConvProblem problem = problem_of(two_dimensions(false));
  EXPECT_THAT(problem.input.sizes, ElementsAre(2, 6, 5, 7));
  EXPECT_THAT(problem.input.strides, ElementsAre(210, 35, 7, 1));
  EXPECT_THAT(problem.weight.sizes, ElementsAre(8, 2, 3, 1));
  EXPECT_THAT(problem.pads_begin, ElementsAre(1, 0));
  EXPECT_THAT(problem.pads_end, ElementsAre(0, 3));
  EXPECT_THAT(problem.strides, ElementsAre(2, 1));
  EXPECT_THAT(problem.dilations, ElementsAre(1, 2));
}

TEST(ConvProblem, OneDimensionBecomesTwo) {
  for (const bool channels_last : {true, false}) {
    const ConvProblem problem =
        problem_of({"", channels_last, 2, 3, 4, 1, {9}, {3}, {2}, {3}, {1}, {2}});
    EXPECT_THAT(problem.input.sizes, ElementsAre(2, 3, 1, 9));
    EXPECT_EQ(problem.input.strides[1], channels_last ? 1 : 9);
    EXPECT_EQ(problem.input.strides[3], channels_last ? 3 : 1);
    EXPECT_THAT(problem.weight.sizes, ElementsAre(4, 3, 1, 3));
    EXPECT_THAT(problem.strides, ElementsAre(1, 2));
    EXPECT_THAT(problem.dilations, ElementsAre(1, 3));
    EXPECT_THAT(problem.pads_begin, ElementsAre(0, 1));
    EXPECT_THAT(problem.pads_end, ElementsAre(0, 2));
  }
}

TEST(ConvProblem, NothingToWriteAndNothingToSum) {
  ConvCase test = two_dimensions(true);
  EXPECT_FALSE(problem_of(test).is_empty());
  EXPECT_FALSE(problem_of(test).sums_nothing());
  test.batch = 0;
  EXPECT_TRUE(problem_of(test).is_empty());
  test = two_dimensions(false);
  test.channels = 0;
  test.group = 1;
  EXPECT_FALSE(problem_of(test).is_empty());
  EXPECT_TRUE(problem_of(test).sums_nothing());
}

TEST(ConvProblem, KeysTellProblemsApart) {
  std::vector<std::string> keys;
  ConvCase test = two_dimensions(true);
  const auto add = [&] { keys.push_back(problem_of(test).key()); };
  add();
  EXPECT_EQ(keys[0], "conv f16 last x2,6,5,7 w8,2,3,1 s2,1 d1,2 p1,0+0,3");
  test.channels_last = false;
  add();
  test.bias = true;
  add();
  test.residual = true;
  add();
  test.activation = fb::Activation::LeakyRelu;
  add();
  test.a = 0.5f;
  add();
  test.pads_end = {0, 4};
  add();
  keys.push_back(problem_of(test, fb::MathMode::Tf32).key());
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t j = i + 1; j < keys.size(); ++j) EXPECT_NE(keys[i], keys[j]);
}

}  // namespace
}  // namespace sinter::testing
