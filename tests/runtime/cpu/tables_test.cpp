// SPDX-License-Identifier: Apache-2.0
// Functions of one 8-bit integer, which become tables; gathers whose columns' offsets are kept.
#include <bit>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "loop_case.h"

namespace sinter::testing {
namespace {

/// Dequantizes `from`, bends it, and quantizes it to `to`.
LoopCase bent(DType from, DType to, std::int64_t rows, std::int64_t columns, bool adds_other) {
  PlanBuilder b;
  const Id m = b.constant(rows), n = b.constant(columns), one = b.constant(1), zero = b.constant(0);
  const Id x = b.input("x", from, {m, n});
  const Id other = b.input("other", from, {m, n});
  const Id y = b.output("y", to, {m, n});
  LoopBuilder l({m, n}, 0);
  const auto dequantized = [&](Id buffer) {
    const Id value = l.load(l.access(buffer, zero, {n, one}), from);
    const Id exact = l.op(ScalarOp::kCast, {value}, DType::kInt32);
    const Id less = l.op(ScalarOp::kSub, {exact, l.constant(7, DType::kInt32)}, DType::kInt32);
    return l.op(ScalarOp::kMul, {l.op(ScalarOp::kCast, {less}), l.constant(0.04)});
  };
  Id value = l.op(ScalarOp::kTanh, {dequantized(x)});
  if (adds_other) value = l.op(ScalarOp::kAdd, {value, dequantized(other)});
  value = l.op(ScalarOp::kRound, {l.op(ScalarOp::kQuotient, {value, l.constant(0.01)})});
  value = l.op(ScalarOp::kAdd, {value, l.constant(3)});
  l.store(l.access(y, zero, {n, one}), l.op(ScalarOp::kCast, {value}, to), to);
  b.loop("bent", std::move(l));
  LoopCase test(std::move(b));
  for (std::int64_t i = 0; i < rows * columns; ++i)
    set_element(from, test.buffers()[x], i,
                static_cast<double>(i % 256 - (from == DType::kInt8 ? 128 : 0)));
  return test;
}

TEST(CpuTables, OfEveryByte) {
  for (const DType from : {DType::kInt8, DType::kUInt8})
    for (const DType to : {DType::kInt8, DType::kUInt8})
      for (const auto& [rows, columns] :
           {std::pair<std::int64_t, std::int64_t>{1, 256}, {9, 300}, {3, 70}, {400, 33}, {0, 64}})
        for (const bool adds_other : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << to_string(from) << " to " << to_string(to) << ", " << rows << " x "
                       << columns << (adds_other ? " with another" : ""));
          bent(from, to, rows, columns, adds_other).check();
        }
}

/// Quotients by one number have the bits of divisions, with everything that floats can be.
TEST(CpuTables, QuotientsAreRoundedOnce) {
  for (const double by : {0.03, -7.0, 1.0 / 3, 1e-11, 3e13, 1e-30, 0.0, HUGE_VAL}) {
    SCOPED_TRACE(by);
    PlanBuilder b;
    const Id n = b.constant(4000), one = b.constant(1), zero = b.constant(0);
    const Id x = b.input("x", DType::kFloat32, {n});
    const Id y = b.output("y", DType::kFloat32, {n});
    LoopBuilder l({n}, 0);
    const Id quotient =
        l.op(ScalarOp::kQuotient, {l.load(l.access(x, zero, {one})), l.constant(by)});
    l.store(l.access(y, zero, {one}), l.op(ScalarOp::kNeg, {quotient}));
    b.loop("quotients", std::move(l));
    LoopCase test(std::move(b));
    std::mt19937 random(1);
    for (std::int64_t i = 0; i < 4000; ++i) {
      // Vectors of usual numbers, and some with others among them.
      const auto bits = static_cast<std::uint32_t>(random());
      const bool is_usual = i % 200 < 150;
      const std::uint32_t chosen = is_usual ? (bits & 0x87FFFFFFU) | 0x38000000U : bits;
      float value = std::bit_cast<float>(chosen);
      if (i % 50 == 0) value = i % 100 == 0 ? 0.0F : -0.0F;
      set_element(DType::kFloat32, test.buffers()[x], i, static_cast<double>(value));
    }
    const auto divisor = static_cast<float>(by);
    const Buffers made = test.run(1);
    const auto* from = reinterpret_cast<const float*>(test.buffers()[x].data());
    const auto* to = reinterpret_cast<const float*>(made[y].data());
    for (std::int64_t i = 0; i < 4000; ++i) {
      const float expected = -(from[i] / divisor);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(to[i])) << from[i];
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(to[i]), std::bit_cast<std::uint32_t>(expected))
            << from[i] << " / " << divisor;
      }
    }
  }
}

/// x[rows at r, columns at c] for index tensors of rows and of columns, as enlarged images have
/// them; with weights of columns, or alone.
struct Grid {
  std::int64_t channels = 3, height = 20, width = 30, rows = 40, columns = 60;
  DType type = DType::kFloat32, index = DType::kInt64;
  bool weighs = true;
};

LoopCase taken(const Grid& g, Id& at_rows, Id& at_columns) {
  PlanBuilder b;
  const auto number = [&](std::int64_t value) { return b.constant(value); };
  const Id channels = number(g.channels), rows = number(g.rows), columns = number(g.columns),
           zero = number(0), one = number(1);
  const Id x = b.input("x", g.type, {channels, number(g.height), number(g.width)});
  at_rows = b.input("r", g.index, {rows});
  at_columns = b.input("c", g.index, {columns});
  const Id weights = b.input("w", DType::kFloat32, {columns});
  const Id y = b.output("y", g.type, {channels, rows, columns});
  LoopBuilder l({channels, rows, columns}, 0);
  const Id r = l.load(l.access(at_rows, zero, {zero, one, zero}), g.index),
           c = l.load(l.access(at_columns, zero, {zero, zero, one}), g.index);
  const Id access = l.access(x, zero, {number(g.height * g.width), zero, zero});
  l.access_at(access).gathers.emplace_back(r, number(g.height), number(g.width));
  l.access_at(access).gathers.emplace_back(c, number(g.width), one);
  const DType compute = compute_type(g.type);
  Id value = l.load(access, compute);
  if (g.weighs && compute == DType::kFloat32)
    value = l.op(ScalarOp::kMul, {value, l.load(l.access(weights, zero, {zero, zero, one}))});
  l.store(l.access(y, zero, {number(g.rows * g.columns), columns, one}), value, compute);
  b.loop("taken", std::move(l));
  LoopCase test(std::move(b));
  // Negative indices count from the end.
  for (std::int64_t i = 0; i < g.rows; ++i)
    set_element(g.index, test.buffers()[at_rows], i,
                static_cast<double>(i * g.height / g.rows - (i % 3 == 0 ? g.height : 0)));
  for (std::int64_t i = 0; i < g.columns; ++i)
    set_element(g.index, test.buffers()[at_columns], i,
                static_cast<double>(i % 5 == 4 ? -1 : i * g.width / g.columns));
  return test;
}

TEST(CpuTakes, RowsAndColumnsOfImages) {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kFloat64, DType::kUInt8})
    for (const DType index : {DType::kInt64, DType::kInt32})
      for (const bool weighs : {false, true})
        for (const std::int64_t columns : {5, 16, 40, 300, 5000}) {
          SCOPED_TRACE(::testing::Message() << columns << " columns of " << to_string(type)
                                            << " at " << to_string(index) << ' ' << weighs);
          Grid g;
          g.type = type;
          g.index = index;
          g.weighs = weighs;
          g.columns = columns;
          Id r = 0, c = 0;
          taken(g, r, c).check();
          g.rows = 3;
          taken(g, r, c).check();
        }
}

TEST(CpuTakes, PlacesOutsideAreRefused) {
  for (const double place : {30.0, -31.0, 1e9})
    for (const bool of_rows : {false, true}) {
      Id r = 0, c = 0;
      LoopCase test = taken({}, r, c);
      set_element(DType::kInt64, test.buffers()[of_rows ? r : c], 17, place);
      EXPECT_THROW((void)test.run(1), Error) << place;
    }
}

}  // namespace
}  // namespace sinter::testing
