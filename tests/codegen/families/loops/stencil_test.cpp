// SPDX-License-Identifier: Apache-2.0
// Reductions of windows over contiguous elements (channels first): a block's slots in shared
// memory.
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

struct Planes {
  std::int64_t images, channels, height, width;
  std::int64_t kernel_y = 3, kernel_x = 3, stride = 1, dilation = 1, begin = 1, end = 1;
  std::int64_t out(std::int64_t in, std::int64_t kernel) const {
    return (in + begin + end - dilation * (kernel - 1) - 1) / stride + 1;
  }
  std::int64_t rows() const { return out(height, kernel_y); }
  std::int64_t columns() const { return out(width, kernel_x); }
  std::string shape() const {
    return fmt::format("[{}, {}, {}, {}]", images, channels, height, width);
  }
  std::string result() const {
    return fmt::format("[{}, {}, {}, {}]", images, channels, rows(), columns());
  }
  /// Windows of `from`, padded with `fill`.
  std::string unfold(const char* from, const char* type, double fill = 0) const {
    const std::int64_t b = fill == 0 ? begin : 0, e = fill == 0 ? end : 0;
    std::string text;
    if (fill != 0)
      text = fmt::format(
          "  %f = Pad(%{0}) {{begins = [0, 0, {1}, {1}], ends = [0, 0, {2}, {2}], fill = {3}}}\n",
          from, begin, end, fill);
    return text +
           fmt::format(
               "  %u = Unfold(%{0}) {{dilations = [{1}, {1}], kernel = [{2}, {3}], pads_begin = "
               "[{4}, {4}], pads_end = [{5}, {5}], strides = [{6}, {6}]}} : {7}[{8}, {9}, {2}, "
               "{3}, {10}, {11}]\n",
               fill == 0 ? from : "f", dilation, kernel_y, kernel_x, b, e, stride, type, images,
               channels, rows(), columns());
  }
};

/// The reduction of windows of x, or of a sum, and what follows it at the result's position.
std::string pooled_planes(const Planes& w, const char* type, const char* reduce,
                          bool of_sum = false) {
  std::string text =
      fmt::format("graph @p(%x: {0}{1}, %z: {0}{1}, %r: {0}{2}) {{\n", type, w.shape(), w.result());
  if (of_sum) text += "  %a = Add(%x, %z)\n";
  return text +
         w.unfold(of_sum ? "a" : "x", type, std::string_view(reduce) == "ReduceMax" ? -1000 : 0) +
         fmt::format("  %s = {}(%u) {{axes = [2, 3], keepdims = 0}}\n", reduce) +
         "  %y = Add(%s, %r)\n  return y = %y\n}\n";
}

/// Planes times weights of each channel, a bias, and a residual.
std::string depthwise_planes(const Planes& w, const char* type) {
  return fmt::format(
             "graph @d(%x: {0}{1}, %w: {0}[{2}, {3}, {4}, 1, 1], %b: {0}[{2}, 1, 1], %r: {0}{5}) "
             "{{\n",
             type, w.shape(), w.channels, w.kernel_y, w.kernel_x, w.result()) +
         w.unfold("x", type) +
         "  %m = Mul(%u, %w)\n  %s = ReduceSum(%m) {axes = [2, 3], keepdims = 0}\n"
         "  %t = Add(%s, %b)\n  %y = Add(%t, %r)\n  return y = %y\n}\n";
}

void add_stencil(CudaCheck& check, const std::string& name, const std::string& text,
                 const std::string& schedule = {}) {
  ProgramBuilder program = lowered_program(check.exprs, ir::parse_graph(text));
  program.schedule = schedule;
  check.add(name, std::move(program));
}

bool all_stencils(const CudaCheck& check) {
  return std::ranges::all_of(check.schedules_run(),
                             [](const auto& entry) { return entry.first.starts_with("stencil"); });
}

const Planes kShapes[] = {
    {2, 3, 16, 32},                     // whole vectors
    {1, 2, 9, 11, 3, 3, 2},             // stride, odd
    {1, 3, 7, 5, 3, 3, 1, 2, 2, 2},     // dilation
    {2, 1, 6, 7, 2, 2, 2, 1, 0, 0},     // apart
    {1, 2, 12, 10, 5, 3, 1, 1, 1, 2},   // not square, unequal padding
    {1, 2, 3, 2, 5, 5, 1, 1, 2, 2},     // smaller than the window
    {1, 5, 13, 17, 7, 7, 1, 1, 3, 3},   // odd channels
    {1, 1, 20, 150, 3, 9, 1, 1, 1, 8},  // several blocks along rows
    {1, 2, 15, 9, 4, 3, 2, 2, 1, 1},    // stride and dilation
};

TEST(CudaStencil, MaximaAndSumsOfWindows) {
  CudaCheck check;
  int number = 0;
  for (const Planes& windows : kShapes)
    for (const char* type : {"f32", "f16", "bf16"})
      for (const char* reduce : {"ReduceMax", "ReduceSum"})
        add_stencil(check, fmt::format("p{}", number++), pooled_planes(windows, type, reduce));
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_stencils(check));
}

/// Rows of memory that are whole vectors are copied in them, whatever the padding.
TEST(CudaStencil, CopiesVectors) {
  CudaCheck check;
  int number = 0;
  for (const std::int64_t pad : {1, 2, 3, 4, 7, 8, 9})
    for (const char* type : {"f32", "f16"}) {
      add_stencil(check, fmt::format("v{}", number++),
                  pooled_planes({2, 3, 17, 32, 3, 3, 2, 1, pad, pad}, type, "ReduceMax"));
      add_stencil(check, fmt::format("v{}", number++),
                  depthwise_planes({1, 3, 9, 72, 3, 5, 1, 1, pad, pad}, type));
    }
  add_stencil(check, "whole", pooled_planes({2, 2, 8, 32, 2, 2, 2, 1, 0, 0}, "f16", "ReduceSum"));
  EXPECT_EQ(check.run(), "");
  for (const codegen::EmittedKernel& kernel : check.kernels())
    EXPECT_TRUE(kernel.source.find("load_if<8>") != std::string::npos ||
                kernel.source.find("load_if<4>") != std::string::npos)
        << kernel.source;
}

/// Weights of each position (interpolation) are read for each result.
TEST(CudaStencil, WeightsOfPositions) {
  CudaCheck check;
  for (const char* type : {"f32", "f16"})
    for (const int columns : {16, 15}) {
      const std::string text = fmt::format(
          "graph @i(%x: {0}[5, 1, {1}], %w: {0}[8, {2}]) {{\n"
          "  %u = Unfold(%x) {{dilations = [1], kernel = [8], pads_begin = [2], pads_end = [2], "
          "strides = [4]}} : {0}[5, 1, 8, {2}]\n  %m = Mul(%u, %w)\n"
          "  %s = ReduceSum(%m) {{axes = [1, 2], keepdims = 0}}\n  return y = %s\n}}\n",
          type, columns * 4, columns);
      add_stencil(check, fmt::format("i_{}_{}", type, columns), text);
    }
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_stencils(check));
}

TEST(CudaStencil, LongWindowsReduceRowsOnce) {
  CudaCheck check;
  int number = 0;
  for (const std::int64_t side : {4, 5, 8, 13, 17})
    for (const char* reduce : {"ReduceMax", "ReduceMin", "ReduceMean"})
      for (const std::int64_t rows : {1, 2, 8})
        add_stencil(
            check, fmt::format("l{}", number++),
            pooled_planes({1, 2, 20, 22, side, side, 1, 1, side / 2, side / 2}, "f32", reduce),
            fmt::format("stencil columns=4 rows={} threads=8x4", rows));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaStencil, WhatIsComputedBeforeLiesInSharedMemory) {
  CudaCheck check;
  int number = 0;
  for (const Planes& windows : kShapes)
    add_stencil(check, fmt::format("s{}", number++),
                pooled_planes(windows, "f16", "ReduceMax", true));
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_stencils(check));
}

TEST(CudaStencil, DepthwiseConvolutions) {
  CudaCheck check;
  int number = 0;
  for (const Planes& windows : kShapes)
    for (const char* type : {"f32", "f16", "bf16"})
      add_stencil(check, fmt::format("d{}", number++), depthwise_planes(windows, type));
  add_stencil(check, "large", depthwise_planes({1, 2, 33, 40, 31, 31, 1, 1, 15, 15}, "f32"));
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_stencils(check));
  // Weights and input are read from shared memory.
  EXPECT_THAT(check.kernels()[0].source, testing::HasSubstr("read_values<4>"));
}

TEST(CudaStencil, SchedulesThatAreAskedFor) {
  CudaCheck check;
  int number = 0;
  const Planes windows{3, 2, 21, 24, 3, 3, 1, 1, 1, 1}, strided{3, 2, 21, 48, 3, 3, 2, 1, 1, 1};
  for (const char* schedule :
       {"stencil columns=1 threads=8x8", "stencil columns=2 rows=4 threads=8x2",
        "stencil columns=4 rows=2 planes=2 threads=4x8", "stencil columns=8 rows=2 threads=4x4",
        "stencil columns=4 rows=8 planes=4 threads=8x4", "stencil columns=4 threads=32x1"})
    for (const Planes& w : {windows, strided}) {
      add_stencil(check, fmt::format("a{}", number++), depthwise_planes(w, "f32"), schedule);
      add_stencil(check, fmt::format("a{}", number++), pooled_planes(w, "f16", "ReduceMax"),
                  schedule);
    }
  EXPECT_EQ(check.run(), "");
}

/// Planes along one and three dimensions; those of other dimensions are loops around the copy.
TEST(CudaStencil, OneAndThreeDimensions) {
  CudaCheck check;
  for (const char* type : {"f32", "f16"}) {
    add_stencil(
        check, fmt::format("one_{}", type),
        fmt::format("graph @o(%x: {0}[2, 3, 300], %w: {0}[3, 31, 1]) {{\n"
                    "  %u = Unfold(%x) {{dilations = [1], kernel = [31], pads_begin = [15], "
                    "pads_end = [15], strides = [1]}} : {0}[2, 3, 31, 300]\n"
                    "  %m = Mul(%u, %w)\n  %s = ReduceSum(%m) {{axes = [2], keepdims = 0}}\n"
                    "  return y = %s\n}}\n",
                    type));
    for (const int kernel : {2, 3}) {
      const int pad = kernel - 2;
      add_stencil(
          check, fmt::format("three_{}_{}", type, kernel),
          fmt::format("graph @t(%x: {0}[2, 2, 6, 8, 10]) {{\n"
                      "  %u = Unfold(%x) {{dilations = [1, 1, 1], kernel = [{1}, {1}, {1}], "
                      "pads_begin = [{2}, {2}, {2}], pads_end = [{2}, {2}, {2}], strides = "
                      "[2, 2, 2]}} : {0}[2, 2, {1}, {1}, {1}, {3}]\n"
                      "  %s = {4}(%u) {{axes = [2, 3, 4], keepdims = 0}}\n  return y = %s\n}}\n",
                      type, kernel, pad, kernel == 2 ? "3, 4, 5" : "3, 4, 5",
                      kernel == 2 ? "ReduceMean" : "ReduceMax"));
    }
  }
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_stencils(check));
}

/// Groups of channels, whose output channels share windows.
TEST(CudaStencil, SmallGroups) {
  CudaCheck check;
  const Planes windows{2, 6, 10, 12};
  add_stencil(
      check, "grouped",
      fmt::format("graph @g(%x: f32{}, %w: f32[2, 4, 3, 3, 3, 1, 1]) {{\n", windows.shape()) +
          windows.unfold("x", "f32") +
          "  %v = Reshape(%u) {shape = [2, 2, 1, 3, 3, 3, 10, 12]} : f32[2, 2, 1, 3, 3, 3, "
          "10, 12]\n  %m = Mul(%v, %w)\n  %s = ReduceSum(%m) {axes = [3, 4, 5], keepdims "
          "= 0}\n  return y = %s\n}\n");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaStencil, SymbolicImages) {
  CudaCheck check({{"b", {1, 64, nullptr}}, {"h", {1, 512, nullptr}}, {"w", {1, 512, nullptr}}});
  for (const char* type : {"f32", "f16"})
    check.add(
        fmt::format("symbolic_{}", type),
        lowered_program(
            check.exprs,
            ir::parse_graph(fmt::format(
                "graph @s(%x: {0}[b, 3, h, w]) ranges {{b: 1..64, h: 1..512, w: 1..512}} {{\n"
                "  %u = Unfold(%x) {{dilations = [1, 1], kernel = [3, 3], pads_begin = [1, 1], "
                "pads_end = [1, 1], strides = [1, 1]}}\n"
                "  %s = ReduceMax(%u) {{axes = [2, 3], keepdims = 0}}\n  return y = %s\n}}\n",
                type))),
        {{{"b", 2}, {"h", 5}, {"w", 7}}, {{"b", 1}, {"h", 64}, {"w", 64}}});
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(all_stencils(check));
}

TEST(CudaStencil, RefusesWhatDoesNotFit) {
  const auto error_of = [](const std::string& text, const std::string& schedule) -> std::string {
    codegen::ExprTable exprs({});
    ProgramBuilder program = lowered_program(exprs, ir::parse_graph(text));
    program.schedule = schedule;
    try {
      codegen::emit_loops(program.request("k"), exprs);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string pool = pooled_planes({1, 2, 8, 12}, "f32", "ReduceMax");
  EXPECT_THAT(error_of(pool, "stencil columns=16 threads=8x4"), testing::HasSubstr("too many"));
  EXPECT_THAT(error_of(pool, "stencil planes=3 threads=8x4"), testing::HasSubstr("planes"));
  EXPECT_THAT(error_of(pool, "stencil columns=8 rows=16 threads=32x16"),
              testing::HasSubstr("memory"));
  EXPECT_THAT(error_of("graph @r(%x: f32[64, 64]) {\n  %s = ReduceMax(%x) {axes = [1], keepdims = "
                       "0}\n  return y = %s\n}\n",
                       "stencil columns=4 threads=8x4"),
              testing::HasSubstr("no windows"));
}

}  // namespace
}  // namespace sinter::test
#endif
