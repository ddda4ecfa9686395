// SPDX-License-Identifier: Apache-2.0
// What sizes of a plan come to.
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_builder.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

TEST(PlanExpressions, OverflowAndDivisionByZeroAreErrors) {
  PlanBuilder b;
  const Id n = b.symbol("n", 0, INT64_MAX);
  b.expr(fb::ExprOp::Mul, n, n);
  b.expr(fb::ExprOp::FloorDiv, n, b.expr(fb::ExprOp::Sub, n, b.constant(3)));
  const auto evaluate = [&](std::int64_t value) -> std::string {
    try {
      plan::evaluate_expressions(b.meta, std::vector{value});
    } catch (const Error& error) {
      return error.what();
    }
    return "fine";
  };
  EXPECT_EQ(evaluate(5), "fine");
  EXPECT_THAT(evaluate(INT64_MAX), HasSubstr("overflows 64 bits for n=9223372036854775807"));
  EXPECT_THAT(evaluate(3), HasSubstr("divides by zero for n=3"));
}

TEST(PlanExpressions, FloorDivisionRoundsDown) {
  PlanBuilder b;
  const Id q = b.expr(fb::ExprOp::FloorDiv, b.constant(-7), b.constant(2));
  EXPECT_EQ(plan::evaluate_expressions(b.meta, {})[q], -4);
}

}  // namespace
}  // namespace sinter::testing
