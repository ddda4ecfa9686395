// SPDX-License-Identifier: Apache-2.0
// Loop programs on the CPU: every operator, casts, indices.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "loop_case.h"

namespace sinter::testing {
namespace {

TEST(CpuLoops, IndexAndSelect) {
  PlanBuilder b;
  const Id m = b.constant(6), n = b.constant(70), one = b.constant(1), zero = b.constant(0);
  const Id x = b.input("x", DType::kFloat32, {m, n});
  const Id y = b.output("y", DType::kFloat32, {m, n});
  LoopBuilder l({m, n}, 1);
  const Id below = l.op(ScalarOp::kGreaterEqual, {l.index(0), l.index(1)}, DType::kBool);
  const Id v = l.load(l.access(x, zero, {n, one}));
  const Id masked = l.op(ScalarOp::kSelect, {below, v, l.constant(-1e9)});
  l.store(l.access(y, zero, {n, one}),
          l.op(ScalarOp::kSub, {masked, l.reduce(Combine::kMax, masked)}));
  b.loop("causal", std::move(l));
  LoopCase(std::move(b)).check();
}

TEST(CpuLoops, EveryOperatorOnFloat) {
  for (int number = 0; number < kScalarOpCount; ++number) {
    const auto op = static_cast<ScalarOp>(number);
    if (converts(op) || op == ScalarOp::kSelect || !is_defined_on(op, DType::kFloat32)) continue;
    for (const DType type : {DType::kFloat32, DType::kFloat64}) {
      SCOPED_TRACE(std::string(to_string(op)) + " " + std::string(to_string(type)));
      PlanBuilder b;
      const Id n = b.constant(3000), one = b.constant(1), zero = b.constant(0);
      const Id x = b.input("x", type, {n});
      const Id y = b.output("y", yields_bool(op) ? DType::kBool : type, {n});
      LoopBuilder l({n}, 0);
      std::vector<Id> args = {l.load(l.access(x, zero, {one}), type)};
      if (arity_of(op) == 2)
        args.push_back(l.op(ScalarOp::kAdd, {args[0], l.constant(0.7, type)}, type));
      // Where the function has no value everywhere: distances instead of values.
      if (op == ScalarOp::kLog || op == ScalarOp::kSqrt || op == ScalarOp::kRsqrt ||
          op == ScalarOp::kLog1p || op == ScalarOp::kPow)
        args[0] = l.op(ScalarOp::kAbs, {args[0]}, type);
      const DType result = yields_bool(op) ? DType::kBool : type;
      l.store(l.access(y, zero, {one}), l.op(op, args, result), result);
      b.loop("op", std::move(l));
      LoopCase(std::move(b)).check();
    }
  }
}

TEST(CpuLoops, EveryOperatorOnIntegers) {
  for (const DType type : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt8,
                           DType::kUInt16, DType::kUInt32, DType::kUInt64})
    for (const ScalarOp op :
         {ScalarOp::kAdd, ScalarOp::kMul, ScalarOp::kDiv, ScalarOp::kMod, ScalarOp::kFmod,
          ScalarOp::kMin, ScalarOp::kMax, ScalarOp::kLess, ScalarOp::kEqual,
          ScalarOp::kGreaterEqual, ScalarOp::kBitAnd, ScalarOp::kBitOr, ScalarOp::kBitXor}) {
      SCOPED_TRACE(std::string(to_string(op)) + " " + std::string(to_string(type)));
      PlanBuilder b;
      const Id n = b.constant(100), one = b.constant(1), zero = b.constant(0),
               last = b.constant(99);
      const Id x = b.input("x", type, {n});
      const DType result = yields_bool(op) ? DType::kBool : type;
      const Id y = b.output("y", result, {n});
      LoopBuilder l({n}, 0);
      const Id a = l.load(l.access(x, zero, {one}), type);
      const Id c = l.load(l.access(x, last, {b.constant(-1)}), type);
      l.store(l.access(y, zero, {one}), l.op(op, {a, c}, result), result);
      b.loop("op", std::move(l));
      LoopCase(std::move(b)).check();
    }
}

TEST(CpuLoops, CastsSaturateAndTruncate) {
  PlanBuilder b;
  const Id n = b.constant(6), one = b.constant(1), zero = b.constant(0);
  const Id x = b.input("x", DType::kFloat32, {n});
  const Id y = b.output("y", DType::kInt8, {n});
  const Id z = b.output("z", DType::kBool, {n});
  LoopBuilder l({n}, 0);
  const Id v = l.load(l.access(x, zero, {one}));
  l.store(l.access(y, zero, {one}), l.op(ScalarOp::kCast, {v}, DType::kInt8), DType::kInt8);
  l.store(l.access(z, zero, {one}), l.op(ScalarOp::kCast, {v}, DType::kBool), DType::kBool);
  b.loop("cast", std::move(l));
  LoopCase test(std::move(b));
  const double values[] = {1.9, -1.9, 1000, -1000, NAN, 0};
  for (int i = 0; i < 6; ++i) set_element(DType::kFloat32, test.buffers()[x], i, values[i]);
  const Buffers result = test.run(1);
  const double bytes[] = {1, -1, 127, -128, 0, 0}, bools[] = {1, 1, 1, 1, 1, 0};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(element(DType::kInt8, result[y], i), bytes[i]);
    EXPECT_EQ(element(DType::kBool, result[z], i), bools[i]);
  }
}

}  // namespace
}  // namespace sinter::testing
