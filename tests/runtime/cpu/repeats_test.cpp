// SPDX-License-Identifier: Apache-2.0
// Programs of which much is the same along one loop, or for each of 256 bytes: it is computed once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loop_case.h"

namespace sinter::testing {
namespace {

/// Samples of [images, channels, pixels] at positions that are data, with weights that are computed
/// from these, and nothing outside: for each channel, or a mean of `taps` of them.
struct Samples {
  std::int64_t images = 2, channels = 7, pixels = 300, positions = 2500, taps = 1;
  DType type = DType::kFloat32;
  bool smooth = false;  // neighbouring positions are near each other
};

LoopCase sampled(const Samples& c, Id& positions) {
  PlanBuilder b;
  const auto number = [&](std::int64_t value) { return b.constant(value); };
  const Id n = number(c.images), ch = number(c.channels), p = number(c.positions),
           taps = number(c.taps), zero = number(0), one = number(1);
  const Id x = b.input("x", c.type, {n, ch, number(c.pixels)});
  positions = b.input("at", DType::kFloat32, {n, number(c.positions * c.taps)});
  const Id y = b.output("y", c.type, {n, ch, p});
  const bool reduces = c.taps > 1;
  LoopBuilder l(reduces ? std::vector<Id>{n, ch, p, taps} : std::vector<Id>{n, ch, p},
                reduces ? 1 : 0);
  const auto strides = [&](std::int64_t image, std::int64_t channel, std::int64_t position,
                           std::int64_t tap) {
    std::vector<Id> result{number(image), number(channel), number(position)};
    if (reduces) result.push_back(number(tap));
    return result;
  };
  const Id at = l.load(l.access(positions, zero, strides(c.positions * c.taps, 0, c.taps, 1)));
  const Id place = l.op(ScalarOp::kFloor, {at}), weight = l.op(ScalarOp::kSub, {at, place});
  const Id last = l.constant(static_cast<double>(c.pixels - 1));
  const Id inside = l.op(ScalarOp::kAnd,
                         {l.op(ScalarOp::kLessEqual, {l.constant(0), place}, DType::kBool),
                          l.op(ScalarOp::kLessEqual, {place, last}, DType::kBool)},
                         DType::kBool);
  const Id index = l.op(
      ScalarOp::kCast, {l.op(ScalarOp::kMin, {l.op(ScalarOp::kMax, {place, l.constant(0)}), last})},
      DType::kInt64);
  const Id taken = l.access(x, zero, strides(c.channels * c.pixels, c.pixels, 0, 0));
  l.access_at(taken).gathers.emplace_back(index, number(c.pixels), one);
  const DType compute = compute_type(c.type);
  Id value = l.load(taken, compute);
  if (compute != DType::kFloat32) value = l.op(ScalarOp::kCast, {value}, DType::kFloat32);
  value = l.op(ScalarOp::kMul, {l.op(ScalarOp::kSelect, {inside, value, l.constant(0)}), weight});
  if (reduces) value = l.reduce(Combine::kSum, value);
  if (compute != DType::kFloat32) value = l.op(ScalarOp::kCast, {value}, compute);
  l.store(l.access(y, zero, strides(c.channels * c.positions, c.positions, 1, 0)), value, compute);
  b.loop("samples", std::move(l));
  LoopCase test(std::move(b));
  for (std::int64_t i = 0; i < c.images * c.positions * c.taps; ++i) {
    const std::int64_t step = c.smooth ? i / 4 % c.pixels : i * 7919 % (c.pixels + 20) - 10;
    set_element(DType::kFloat32, test.buffers()[positions], i, static_cast<double>(step) + 0.375);
  }
  return test;
}

TEST(CpuRepeats, SamplesOfAllChannels) {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kFloat64, DType::kUInt8})
    for (const bool smooth : {false, true})
      for (const std::int64_t positions : {100, 1000, 2500})
        for (const std::int64_t images : {1, 2}) {
          SCOPED_TRACE(::testing::Message() << images << " images, " << positions
                                            << " positions of " << to_string(type));
          Samples c;
          c.type = type;
          c.smooth = smooth;
          c.positions = positions;
          c.images = images;
          Id at = 0;
          const LoopCase test = sampled(c, at);
          EXPECT_EQ(test.schedule().repeats, c.channels);
          test.check();
        }
}

TEST(CpuRepeats, MeansOfSamples) {
  for (const DType type : {DType::kFloat32, DType::kFloat16})
    for (const std::int64_t taps : {2, 4, 16}) {
      SCOPED_TRACE(::testing::Message() << taps << " taps of " << to_string(type));
      Samples c;
      c.type = type;
      c.taps = taps;
      c.positions = 49;
      Id at = 0;
      const LoopCase test = sampled(c, at);
      EXPECT_TRUE(test.is_across());
      EXPECT_EQ(test.schedule().repeats, c.channels);
      test.check(1e-5);
    }
}

/// Where little is the same, memory is walked in its order.
TEST(CpuRepeats, NotForAFactor) {
  PlanBuilder b;
  const Id rows = b.constant(40), columns = b.constant(300), one = b.constant(1),
           zero = b.constant(0);
  const Id x = b.input("x", DType::kFloat32, {rows, columns});
  const Id scale = b.input("s", DType::kFloat32, {columns});
  const Id y = b.output("y", DType::kFloat32, {rows, columns});
  LoopBuilder l({rows, columns}, 0);
  const Id factor =
      l.op(ScalarOp::kMul, {l.load(l.access(scale, zero, {zero, one})), l.constant(2)});
  l.store(l.access(y, zero, {columns, one}),
          l.op(ScalarOp::kMul, {l.load(l.access(x, zero, {columns, one})), factor}));
  b.loop("scale", std::move(l));
  LoopCase test(std::move(b));
  EXPECT_EQ(test.schedule().repeats, 1);
  test.check();
}

/// Indices beyond the data are an error, whichever repetition they are found in.
TEST(CpuRepeats, IndicesOutOfRange) {
  PlanBuilder b;
  const auto number = [&](std::int64_t value) { return b.constant(value); };
  const Id ch = number(8), p = number(500), zero = number(0), one = number(1);
  const Id x = b.input("x", DType::kFloat32, {ch, number(30)});
  const Id at = b.input("at", DType::kInt64, {p});
  const Id y = b.output("y", DType::kFloat32, {ch, p});
  LoopBuilder l({ch, p}, 0);
  const Id index = l.load(l.access(at, zero, {zero, one}), DType::kInt64);
  const Id other = l.op(ScalarOp::kMul, {index, index}, DType::kInt64);
  Id sum = 0;
  for (const Id place : {index, l.op(ScalarOp::kMin, {other, index}, DType::kInt64)}) {
    const Id taken = l.access(x, zero, {number(30), zero});
    l.access_at(taken).gathers.emplace_back(place, number(30), one);
    const Id value = l.load(taken);
    sum = sum == 0 ? value : l.op(ScalarOp::kAdd, {sum, value});
  }
  l.store(l.access(y, zero, {p, one}), sum);
  b.loop("take", std::move(l));
  LoopCase test(std::move(b));
  EXPECT_EQ(test.schedule().repeats, 8);
  test.check();
  set_element(DType::kInt64, test.buffers()[at], 400, 30);
  EXPECT_THROW(test.run(1), Error);
  EXPECT_THROW(test.run(3), Error);
}

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
