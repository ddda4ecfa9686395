// SPDX-License-Identifier: Apache-2.0
// Loads across what a kernel stores: tiles through shared memory.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/loops/emit_loops.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/cuda_check.h"

namespace sinter::test {
namespace {

using ir::Dim;

/// y[i, j] = x[j, i] * 0.5 + z[i, j], x and z of their own types.
ProgramBuilder turned(codegen::ExprTable& exprs, const Dim& rows, const Dim& columns, DType x,
                      DType z) {
  ProgramBuilder p(exprs, {rows, columns}, 0);
  const auto a = p.load(p.dense(x, {1, 0}));
  const auto b = p.load(p.dense(z, {0, 1}));
  const auto as_float = [&](std::uint32_t value) {
    return p.type_of(value) == DType::kFloat32 ? value
                                               : p.op(ScalarOp::kCast, DType::kFloat32, {value});
  };
  const auto half = p.op(ScalarOp::kMul, {as_float(a), p.constant(DType::kFloat32, 0.5)});
  p.store(p.dense(z, {0, 1}), p.op(ScalarOp::kAdd, {half, as_float(b)}));
  return p;
}

bool all_turn(const CudaCheck& check) {
  for (const auto& [schedule, count] : check.schedules_run())
    if (!schedule.starts_with("transpose")) return false;
  return !check.schedules_run().empty();
}

TEST(CudaTranspose, TypesAndSizes) {
  CudaCheck check;
  int number = 0;
  const std::pair<int, int> sizes[] = {{64, 128}, {200, 72}, {33, 65},
                                       {130, 40}, {8, 512},  {300, 9}};
  for (const auto& [rows, columns] : sizes)
    for (const DType x : {DType::kFloat32, DType::kFloat16, DType::kInt8})
      for (const DType z : {DType::kFloat32, DType::kBFloat16})
        check.add(fmt::format("t{}", number++), turned(check.exprs, rows, columns, x, z));
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_turn(check));
}

/// An image's colours are stored from a tile where the image is large, so that loads are vectors.
TEST(CudaTranspose, FewChannelsOfLargeImages) {
  CudaCheck check;
  for (const DType type : {DType::kFloat32, DType::kFloat16})
    check.add(fmt::format("colours_{}", to_string(type)),
              turned(check.exprs, 349'528, 3, type, type));
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_turn(check));
  CudaCheck small;
  small.add("small", turned(small.exprs, 512, 3, DType::kFloat32, DType::kFloat32));
  EXPECT_EQ(small.run(), "");
  EXPECT_FALSE(all_turn(small));
}

/// Where elements move one by one, a thread has several in flight.
TEST(CudaPointwise, SingleElementsAreUnrolled) {
  CudaCheck check;
  const auto joined = [&](std::int64_t rows, const char* type) {
    return lowered_program(
        check.exprs,
        ir::parse_graph(fmt::format("graph @c(%x: {0}[{1}, 33], %y: {0}[{1}, 31]) {{\n  %z = "
                                    "Concat(%x, %y) {{axis = 1}}\n  return z = %z\n}}\n",
                                    type, rows)));
  };
  const auto source_of = [&](std::int64_t rows, const char* type) {
    return codegen::emit_loops(joined(rows, type).request("joined"), check.exprs).source;
  };
  EXPECT_THAT(source_of(100'000, "f32"), testing::HasSubstr("pointwise vector=1 unroll=4"));
  EXPECT_THAT(source_of(100'000, "f64"), testing::HasSubstr("pointwise vector=1 unroll=2"));
  EXPECT_THAT(source_of(1000, "f32"), testing::HasSubstr("pointwise vector=1 unroll=1"));
}

TEST(CudaTranspose, SchedulesOfEveryShape) {
  CudaCheck check;
  int number = 0;
  for (const char* schedule :
       {"transpose vector=8x8 threads=256 tile=64x64",
        "transpose vector=8x8 threads=64 tile=128x32",
        "transpose vector=8x2 threads=128 tile=32x64",
        "transpose vector=2x8 threads=256 tile=64x128",
        "transpose vector=1x8 threads=32 tile=8x128", "transpose vector=4x1 threads=512 tile=64x64",
        "transpose vector=1x1 threads=1024 tile=32x32",
        "transpose vector=8x8 threads=8 tile=8x8"}) {
    ProgramBuilder p = turned(check.exprs, 136, 104, DType::kFloat16, DType::kFloat16);
    p.schedule = schedule;
    check.add(fmt::format("s{}", number++), std::move(p));
  }
  EXPECT_EQ(check.run(), "");
  EXPECT_EQ(check.schedules_run().size(), 8u);
}

TEST(CudaTranspose, SizesThatAreNotKnown) {
  CudaCheck check({{"s", {1, 4096, nullptr}}, {"t", {1, INT64_MAX, nullptr}}});
  const Dim s = Dim::symbol("s"), t = Dim::symbol("t");
  for (const DType type : {DType::kFloat16, DType::kFloat32})
    check.add(fmt::format("u_{}", to_string(type)), turned(check.exprs, s, t, type, type),
              {{{"s", 64}, {"t", 80}}, {{"s", 1}, {"t", 1}}, {{"s", 65}, {"t", 7}}});
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_turn(check));
}

TEST(CudaTranspose, LoweredRegions) {
  CudaCheck check({{"n", {1, 64, nullptr}}});
  const auto add = [&](const char* name, const std::string& text,
                       std::vector<ir::Bindings> symbols = {{}}) {
    check.add(name, lowered_program(check.exprs, ir::parse_graph(text)), std::move(symbols));
  };
  add("channels_last",
      "graph @g(%x: f16[2, 40, 6, 9], %b: f16[40]) {\n"
      "  %t = Transpose(%x) {perm = [0, 2, 3, 1]}\n  %y = Add(%t, %b)\n  return y = %y\n}\n");
  add("several_inputs",
      "graph @g(%x: f32[3, 40, 64], %z: f16[64, 3, 40], %w: f32[3, 64, 40], %s: f32[3]) {\n"
      "  %a = Transpose(%x) {perm = [0, 2, 1]}\n  %b = Transpose(%z) {perm = [1, 0, 2]}\n"
      "  %c = Cast(%b) {to = f32}\n  %d = Mul(%a, %c)\n  %e = Sub(%d, %w)\n"
      "  %q = Reshape(%s) {shape = [3, 1, 1]}\n  %y = Mul(%e, %q)\n  return y = %y, e = %e\n}\n");
  for (const char* type : {"f16", "f32"})
    for (const int columns : {72, 45})
      add(fmt::format("both_ways_{}_{}", type, columns).c_str(),
          fmt::format("graph @g(%x: {0}[3, 50, {1}], %z: {0}[3, {1}, 50]) {{\n  %r = Relu(%x)\n"
                      "  %t = Transpose(%r) {{perm = [0, 2, 1]}}\n  %y = Mul(%t, %z)\n"
                      "  %n = Neg(%r)\n  return y = %y, n = %n\n}}\n",
                      type, columns));
  add("padded",
      "graph @g(%x: f32[60, 44]) {\n  %p = Pad(%x) {begins = [4, 3], ends = [8, 5], fill = 1.5}\n"
      "  %t = Transpose(%p) {perm = [1, 0]}\n  %y = Exp(%t)\n  return y = %y\n}\n");
  add("joined",
      "graph @g(%x: f16[32, 80], %z: f16[64, 80]) {\n  %c = Concat(%x, %z) {axis = 0}\n"
      "  %t = Transpose(%c) {perm = [1, 0]}\n  %y = Neg(%t)\n  return y = %y\n}\n");
  add("keys",
      "graph @g(%x: f16[n, 24, 3, 64]) {\n  %t = Transpose(%x) {perm = [0, 2, 3, 1]}\n"
      "  %y = Neg(%t)\n  return y = %y\n}\n",
      {{{"n", 2}}, {{"n", 1}}});
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_turn(check));
}

TEST(CudaTranspose, SmallOnesStayPointwise) {
  codegen::ExprTable exprs{ir::Ranges{}};
  const auto schedule = [&](int rows, int columns) {
    return emit_loops(turned(exprs, rows, columns, DType::kFloat32, DType::kFloat32).request("k"),
                      exprs)
        .step.variants.at(0)
        ->schedule;
  };
  EXPECT_THAT(schedule(16, 16), testing::StartsWith("pointwise"));
  EXPECT_THAT(schedule(4000, 3), testing::StartsWith("pointwise"));
  EXPECT_THAT(schedule(32, 32), testing::StartsWith("transpose"));
}

TEST(CudaTranspose, WishesThatDoNotFitAreRefused) {
  codegen::ExprTable exprs{ir::Ranges{}};
  for (const char* requested : {"transpose vector=8x8 threads=256 tile=48x64",
                                "transpose vector=16x1 threads=256 tile=64x64",
                                "transpose vector=8x8 threads=256 tile=256x256"}) {
    ProgramBuilder p = turned(exprs, 136, 104, DType::kFloat16, DType::kFloat16);
    p.schedule = requested;
    EXPECT_THROW(emit_loops(p.request("k"), exprs), Error) << requested;
  }
}

}  // namespace
}  // namespace sinter::test
#endif
