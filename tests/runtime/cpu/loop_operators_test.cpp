// SPDX-License-Identifier: Apache-2.0
// Loop programs on the CPU: every operator, casts, indices.
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <fmt/format.h>
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

/// Tests and the choices that they make, in registers: of constants, columns and rows' values; NaN
/// fails each test but one. Columns that do not fill blocks.
TEST(CpuLoops, ChoicesByTests) {
  for (const std::int64_t columns : {33, 64, 131, 4000})
    for (const ScalarOp test : {ScalarOp::kEqual, ScalarOp::kNotEqual, ScalarOp::kLess,
                                ScalarOp::kLessEqual, ScalarOp::kGreater, ScalarOp::kGreaterEqual})
      for (const bool swapped : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", columns, to_string(test), swapped));
        PlanBuilder b;
        const Id m = b.constant(3), n = b.constant(columns), one = b.constant(1),
                 zero = b.constant(0);
        const Id x = b.input("x", DType::kFloat32, {m, n});
        const Id row = b.input("row", DType::kFloat32, {m});
        const Id y = b.output("y", DType::kFloat32, {m, n});
        const Id z = b.output("z", DType::kFloat32, {m, n});
        LoopBuilder l({m, n}, 0);
        const Id v = l.load(l.access(x, zero, {n, one})),
                 r = l.load(l.access(row, zero, {one, zero}));
        const Id rounded = l.op(ScalarOp::kRound, {l.op(ScalarOp::kSqrt, {v})});
        const auto chosen = [&](Id limit, Id yes, Id no) {
          const Id flag = swapped ? l.op(test, {limit, rounded}, DType::kBool)
                                  : l.op(test, {rounded, limit}, DType::kBool);
          return l.op(ScalarOp::kSelect, {flag, yes, no});
        };
        const Id first = chosen(l.constant(1), v, l.constant(-7)), second = chosen(r, r, v);
        l.store(l.access(y, zero, {n, one}), l.op(ScalarOp::kMul, {first, l.constant(3)}));
        l.store(l.access(z, zero, {n, one}), second);
        b.loop("choose", std::move(l));
        LoopCase(std::move(b)).check();
      }
}

/// Halves of rows, as rotary embeddings turn: rows narrower than a block are computed together.
TEST(CpuLoops, ChainsOfNarrowRows) {
  for (const std::int64_t half : {16, 32, 48})
    for (const std::int64_t count : {8, 37, 300}) {
      SCOPED_TRACE(fmt::format("{} x {}", count, half));
      PlanBuilder b;
      const Id m = b.constant(count), n = b.constant(half), wide = b.constant(2 * half),
               one = b.constant(1), zero = b.constant(0);
      const Id x = b.input("x", DType::kFloat32, {m, wide});
      const Id cosines = b.input("cos", DType::kFloat32, {m, n});
      const Id same = b.input("same", DType::kFloat32, {n});
      const Id y = b.output("y", DType::kFloat32, {m, wide});
      LoopBuilder l({m, n}, 0);
      const Id left = l.load(l.access(x, zero, {wide, one})),
               right = l.load(l.access(x, n, {wide, one}));
      const Id turned = l.op(ScalarOp::kMul, {right, l.load(l.access(same, zero, {zero, one}))});
      Id value = l.op(ScalarOp::kMul, {left, l.load(l.access(cosines, zero, {n, one}))});
      value = l.op(ScalarOp::kSub, {value, turned});
      value = l.op(ScalarOp::kAdd, {value, l.constant(0.25)});
      l.store(l.access(y, n, {wide, one}), value);
      b.loop("turn", std::move(l));
      LoopCase(std::move(b)).check();
    }
}

/// What adds two quantized tensors, in 8 bits of either kind, and quotients that are exact.
TEST(CpuLoops, QuantizedSums) {
  for (const DType type : {DType::kUInt8, DType::kInt8})
    for (const std::int64_t columns : {64, 200, 3001}) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(type), columns));
      PlanBuilder b;
      const Id m = b.constant(5), n = b.constant(columns), one = b.constant(1),
               zero = b.constant(0);
      const Id p = b.input("p", type, {m, n}), q = b.input("q", type, {m, n});
      const Id y = b.output("y", type, {m, n});
      const Id z = b.output("z", DType::kFloat32, {m, n});
      LoopBuilder l({m, n}, 0);
      const auto number = [&](Id from, double scale) {
        const Id wide =
            l.op(ScalarOp::kCast, {l.load(l.access(from, zero, {n, one}), type)}, DType::kInt32);
        const Id less = l.op(ScalarOp::kSub, {wide, l.constant(3, DType::kInt32)}, DType::kInt32);
        return l.op(ScalarOp::kMul,
                    {l.op(ScalarOp::kCast, {less}, DType::kFloat32), l.constant(scale)});
      };
      const Id sum = l.op(ScalarOp::kAdd, {number(p, 0.13F), number(q, 11.7F)});
      const Id quotient = l.op(ScalarOp::kQuotient, {sum, l.constant(0.07F)});
      const Id moved = l.op(ScalarOp::kAdd, {l.op(ScalarOp::kRound, {quotient}), l.constant(5)});
      l.store(l.access(y, zero, {n, one}), l.op(ScalarOp::kCast, {moved}, type), type);
      l.store(l.access(z, zero, {n, one}),
              l.op(ScalarOp::kQuotient,
                   {l.op(ScalarOp::kAdd, {sum, l.constant(0.1F)}), l.constant(0.07F)}));
      b.loop("add", std::move(l));
      LoopCase(std::move(b)).check(0);
    }
}

/// Sums of 8-bit integers down the columns, which are widened where they lie.
TEST(CpuLoops, SumsOfBytes) {
  for (const DType type : {DType::kUInt8, DType::kInt8})
    for (const std::int64_t columns : {8, 64, 131}) {
      PlanBuilder b;
      const Id m = b.constant(3), k = b.constant(500), n = b.constant(columns), one = b.constant(1),
               zero = b.constant(0), plane = b.mul(k, n);
      const Id x = b.input("x", type, {m, k, n});
      const Id y = b.output("y", DType::kInt32, {m, n});
      LoopBuilder l({m, n, k}, 1);
      const Id wide =
          l.op(ScalarOp::kCast, {l.load(l.access(x, zero, {plane, one, n}), type)}, DType::kInt32);
      l.store(l.access(y, zero, {n, one, zero}), l.reduce(Combine::kSum, wide, DType::kInt32),
              DType::kInt32);
      b.loop("sum", std::move(l));
      LoopCase sums(std::move(b));
      EXPECT_TRUE(sums.is_across());
      sums.check();
    }
}

/// Bytes other than 0 and 1 in a user's bools are ones, wherever they lie: threads share the
/// search.
TEST(CpuLoops, BoolsOfUsers) {
  constexpr std::int64_t kCount = 400'001;
  for (const std::int64_t odd : {std::int64_t{0}, std::int64_t{200'000}, kCount - 1}) {
    PlanBuilder b;
    const Id n = b.constant(kCount), one = b.constant(1), zero = b.constant(0);
    const Id x = b.input("x", DType::kBool, {n});
    const Id y = b.output("y", DType::kInt32, {n});
    LoopBuilder l({n}, 0);
    const Id flag = l.load(l.access(x, zero, {one}), DType::kBool);
    l.store(l.access(y, zero, {one}), l.op(ScalarOp::kCast, {flag}, DType::kInt32), DType::kInt32);
    b.loop("cast", std::move(l));
    Session session(b.build());
    std::vector<std::uint8_t> bools(kCount, 0);
    bools[static_cast<std::size_t>(odd)] = 7;
    session.use_input(0, {DType::kBool, {kCount}, bools.data()});
    session.run();
    const auto ints = session.output("y").as<std::int32_t>();
    EXPECT_EQ(ints[static_cast<std::size_t>(odd)], 1);
    EXPECT_EQ(std::accumulate(ints.begin(), ints.end(), 0), 1);
  }
}

}  // namespace
}  // namespace sinter::testing
