// SPDX-License-Identifier: Apache-2.0
// Programs of which much is the same along one loop: it is computed once for all of it.
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

}  // namespace
}  // namespace sinter::testing
