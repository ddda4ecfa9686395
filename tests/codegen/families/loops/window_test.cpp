// SPDX-License-Identifier: Apache-2.0
// Reductions of windows with channels last: a thread takes several channels of several positions.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/families/loops/emit_loops.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/cuda_check.h"

namespace sinter::test {
namespace {

struct Windows {
  std::int64_t height, width, channels, kernel = 3, stride = 1, dilation = 1, pad = 1;
  std::int64_t out(std::int64_t in) const {
    return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  }
  std::string unfold(const char* to, const char* from, const char* type) const {
    return fmt::format(
        "  %{0} = Unfold(%{1}) {{channels_last = 1, dilations = [{2}, {2}], kernel = [{3}, {3}], "
        "pads_begin = [{4}, {4}], pads_end = [{4}, {4}], strides = [{5}, {5}]}} : "
        "{6}[2, {3}, {3}, {7}, {8}, {9}]\n",
        to, from, dilation, kernel, pad, stride, type, out(height), out(width), channels);
  }
  std::string shape() const { return fmt::format("[2, {}, {}, {}]", height, width, channels); }
};

/// Windows times weights, a bias and what lies at the result's position.
std::string depthwise(const Windows& w, const char* type, bool sum_first) {
  std::string text = fmt::format(
      "graph @d(%x: {0}{1}, %z: {0}{1}, %w: {0}[{2}, {2}, 1, 1, {3}], %b: {0}[{3}], "
      "%r: {0}[2, {4}, {5}, {3}]) {{\n",
      type, w.shape(), w.kernel, w.channels, w.out(w.height), w.out(w.width));
  if (sum_first) text += "  %a = Add(%x, %z)\n";
  text += w.unfold("u", sum_first ? "a" : "x", type);
  return text +
         "  %m = Mul(%u, %w)\n  %s = ReduceSum(%m) {axes = [1, 2], keepdims = 0}\n"
         "  %t = Add(%s, %b)\n  %y = Add(%t, %r)\n  return y = %y, t = %t\n}\n";
}

void add_window(CudaCheck& check, const std::string& name, const std::string& text,
                const std::string& schedule) {
  ProgramBuilder program = lowered_program(check.exprs, ir::parse_graph(text));
  program.schedule = schedule;
  check.add(name, std::move(program));
}

TEST(CudaWindow, VectorsAndTilesOfDepthwiseConvolutions) {
  CudaCheck check;
  int number = 0;
  const std::pair<int, int> sizes[] = {{8, 1}, {8, 2}, {4, 4}, {2, 7}, {1, 8}, {1, 1}};
  for (const auto& [vector, tile] : sizes)
    for (const bool sum_first : {false, true})
      add_window(
          check, fmt::format("d{}", number++),
          depthwise({5, 8, 16, sum_first ? 3 : 7, 1, 1, sum_first ? 1 : 3}, "f16", sum_first),
          fmt::format("window vector={} tile={} threads=64", vector, tile));
  EXPECT_EQ(check.run(), "");
  // Four positions of a row read six columns once, not three each.
  EXPECT_THAT(check.kernels()[5].source, testing::HasSubstr("for (i32 s = 0; s < 6; ++s)"));
}

TEST(CudaWindow, StridesDilationsOddChannelsAndTypes) {
  CudaCheck check;
  const Windows all[] = {{9, 11, 6, 3, 2, 1, 1},
                         {9, 7, 5, 3, 1, 2, 2},
                         {7, 12, 4, 2, 2, 1, 0},
                         {8, 13, 6, 3, 2, 3, 3},
                         {6, 10, 3, 5, 1, 1, 2}};
  int number = 0;
  for (const Windows& windows : all)
    for (const char* type : {"f32", "bf16"})
      for (const int tile : {1, 2, 3})
        add_window(check, fmt::format("w{}", number++), depthwise(windows, type, tile == 2),
                   fmt::format("window vector={} tile={} threads=32",
                               windows.channels % 2 == 0 && tile < 3 ? 2 : 1, tile));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaWindow, PoolingsWithSeveralResults) {
  CudaCheck check;
  const Windows windows{8, 9, 12, 3, 2, 1, 1};
  const std::string text =
      fmt::format("graph @p(%x: f16{}) {{\n", windows.shape()) + windows.unfold("u", "x", "f16") +
      "  %most = ReduceMax(%u) {axes = [1, 2], keepdims = 0}\n"
      "  %q = Mul(%u, %u)\n  %sum = ReduceSum(%q) {axes = [1, 2], keepdims = 0}\n"
      "  %root = Sqrt(%sum)\n  %y = Sub(%root, %most)\n"
      "  return most = %most, sum = %sum, y = %y\n}\n";
  for (const auto& [vector, tile] : {std::pair(4, 2), std::pair(2, 5), std::pair(1, 4)})
    add_window(check, fmt::format("p{}_{}", vector, tile), text,
               fmt::format("window vector={} tile={} threads=64", vector, tile));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaWindow, IsChosenWhereRowsAreMany) {
  codegen::ExprTable exprs{ir::Ranges{}};
  const auto schedule = [&](const Windows& windows) {
    return emit_loops(lowered_program(exprs, ir::parse_graph(depthwise(windows, "f16", false)))
                          .request("k"),
                      exprs)
        .step.variants.at(0)
        ->schedule;
  };
  EXPECT_THAT(schedule({56, 56, 96, 7, 1, 1, 3}), testing::HasSubstr("window"));
  EXPECT_THAT(schedule({56, 56, 96, 7, 1, 1, 3}), testing::HasSubstr("tile="));
  EXPECT_THAT(schedule({3, 3, 8, 3, 1, 1, 1}), testing::HasSubstr("column"));
}

}  // namespace
}  // namespace sinter::test
#endif
