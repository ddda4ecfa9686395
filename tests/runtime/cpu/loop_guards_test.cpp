// SPDX-License-Identifier: Apache-2.0
// Loop programs on the CPU: guarded addresses, what is filled in, addresses outside.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "loop_case.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

/// A pad of 2 before and 3 after, reversed, plus an index that is not affine.
TEST(CpuLoops, GuardsFillOutside) {
  for (const bool reduce : {false, true}) {
    PlanBuilder b;
    const Id m = b.constant(5), n = b.constant(20), wide = b.constant(25), one = b.constant(1);
    const Id zero = b.constant(0), minus = b.constant(-1), three = b.constant(3);
    const Id x = b.input("x", DType::kFloat32, {m, n});
    const Id y = b.output("y", DType::kFloat32, {m, wide});
    const Id z = b.output("z", DType::kFloat32, {m, wide});
    LoopBuilder l({m, wide}, reduce ? 1 : 0);
    const Id column = l.index_node(fb::ExprOp::Symbol, 1);
    const Id from =
        l.index_node(fb::ExprOp::Sub, column, l.index_node(fb::ExprOp::Constant, b.constant(2)));
    const Id padded = l.access(x, b.constant(-2), {n, one});
    l.access_at(padded).guards.emplace_back(from, n);
    l.access_at(padded).fill = 7;
    const Id mirrored = l.access(x, b.constant(21), {n, minus});
    l.access_at(mirrored).guards.emplace_back(from, n);
    const Id third =
        l.index_node(fb::ExprOp::FloorDiv, column, l.index_node(fb::ExprOp::Constant, three));
    const Id divided = l.access(x, zero, {n, zero});
    l.access_at(divided).nonaffine.push_back(third);
    l.access_at(divided).guards.emplace_back(third, b.constant(6));
    const Id sum = l.op(ScalarOp::kAdd, {l.load(padded), l.load(mirrored)});
    Id third_value = l.load(divided);
    if (reduce) third_value = l.op(ScalarOp::kSub, {third_value, l.reduce(Combine::kMin, sum)});
    l.store(l.access(y, zero, {wide, one}), sum);
    l.store(l.access(z, zero, {wide, one}), third_value);
    b.loop("pad", std::move(l));
    LoopCase(std::move(b)).check();
  }
}

/// What a plan may say is outside, in types that cannot hold it: integers saturate, NaN is 0.
TEST(CpuLoops, FillsThatTheirTypeCannotHold) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto outside = [](auto kind, DType type, double fill) {
    using T = decltype(kind);
    PlanBuilder b;
    const Id four = b.constant(4), two = b.constant(2), one = b.constant(1), zero = b.constant(0);
    const Id x = b.input("x", type, {two});
    const Id y = b.output("y", type, {four});
    LoopBuilder l({four}, 0);
    const Id padded = l.access(x, zero, {one});
    l.access_at(padded).guards.emplace_back(l.index_node(fb::ExprOp::Symbol, 0), two);
    l.access_at(padded).fill = fill;
    l.store(l.access(y, zero, {one}), l.load(padded, type), type);
    b.loop("pad", std::move(l));
    Session session(b.build());
    session.set_input("x", {2}, std::vector<T>{1, 2});
    session.run();
    EXPECT_EQ(session.output("y").as<T>()[1], T{2});
    return session.output("y").as<T>()[3];
  };
  for (const double large : {kInfinity, 1e300, 9.3e18}) {
    EXPECT_EQ(outside(std::int32_t{}, DType::kInt32, large), INT32_MAX);
    EXPECT_EQ(outside(std::int32_t{}, DType::kInt32, -large), INT32_MIN);
    EXPECT_EQ(outside(std::int64_t{}, DType::kInt64, large), INT64_MAX);
    EXPECT_EQ(outside(std::int64_t{}, DType::kInt64, -large), INT64_MIN);
  }
  EXPECT_EQ(outside(std::int64_t{}, DType::kInt64, std::nan("")), 0);
  EXPECT_EQ(outside(float{}, DType::kFloat32, kInfinity), std::numeric_limits<float>::infinity());
}

TEST(CpuLoops, AddressesOutsideAreErrors) {
  PlanBuilder b;
  const Id n = b.constant(20), one = b.constant(1), zero = b.constant(0);
  const Id x = b.input("x", DType::kFloat32, {n});
  const Id y = b.output("y", DType::kFloat32, {n});
  LoopBuilder l({n}, 0);
  const Id access = l.access(x, one, {one});
  l.access_at(access).guards.emplace_back(l.index_node(fb::ExprOp::Symbol, 0), n);
  l.store(l.access(y, zero, {one}), l.load(access));
  b.loop("outside", std::move(l));
  LoopCase test(std::move(b));
  try {
    test.run(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    EXPECT_THAT(error.what(), HasSubstr("element 20 of buffer 0"));
  }
}

/// Triangles, which are chosen by the loops' indices: above and below, on and beside the diagonal,
/// of a whole program and before a sum, with the constant on either side.
TEST(CpuLoops, Triangles) {
  for (const ScalarOp test : {ScalarOp::kLess, ScalarOp::kLessEqual, ScalarOp::kGreater,
                              ScalarOp::kGreaterEqual, ScalarOp::kEqual})
    for (const std::int64_t diagonal : {-300, -2, 0, 7, 300})
      for (const bool swapped : {false, true})
        for (const bool reduces : {false, true}) {
          PlanBuilder b;
          const Id batch = b.constant(2), m = b.constant(40), n = b.constant(90),
                   one = b.constant(1), zero = b.constant(0), plane = b.mul(m, n);
          const Id x = b.input("x", DType::kFloat32, {batch, m, n});
          const Id y = b.output("y", DType::kFloat32, {batch, m, n});
          LoopBuilder l({batch, m, n}, reduces ? 1 : 0);
          const Id row =
              l.op(ScalarOp::kAdd,
                   {l.index(1), l.constant(static_cast<double>(diagonal), DType::kInt64)},
                   DType::kInt64);
          const Id flag = l.op(test, {row, l.index(2)}, DType::kBool);
          const Id v = l.load(l.access(x, zero, {plane, n, one})), other = l.constant(-3);
          Id chosen = l.op(ScalarOp::kSelect, {flag, swapped ? other : v, swapped ? v : other});
          if (reduces) chosen = l.op(ScalarOp::kSub, {chosen, l.reduce(Combine::kSum, chosen)});
          l.store(l.access(y, zero, {plane, n, one}), chosen);
          b.loop("triangle", std::move(l));
          LoopCase(std::move(b)).check();
        }
}

}  // namespace
}  // namespace sinter::testing
