// SPDX-License-Identifier: Apache-2.0
// Products whose blocks compute the few rows of their left operand themselves: emitted with given
// schedules, run on the emulator and compared with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/gemm/gemm_graph.h"
#include "gemm_check.h"
#include "quantized_graphs.h"

namespace sinter::test {
namespace {

/// y = tanh(norm(x) w) + r for a norm of the operators `norm` (of %x with %g to %n).
std::string prologue_norm_graph(const std::string& type, const std::string& m, int n, int k,
                                const std::string& norm, const std::string& product) {
  return fmt::format(
      "graph @g(%x: {0}[{1}, {3}], %g: {0}[{3}], %r: {0}[{1}, {2}], {5}) {{\n{4}"
      "  %1 = Tanh(%0)\n"
      "  %2 = Add(%1, %r)\n"
      "  return y = %2\n}}\n",
      type, m, n, k, norm, product);
}

constexpr const char* kRms = "  %n = RmsNorm(%x, %g) {axis = 1, epsilon = 0.01}\n";
constexpr const char* kLayer = "  %n = LayerNorm(%x, %g, %g) {axis = 1, epsilon = 0.01}\n";

std::string floats(const std::string& type, const std::string& m, int n, int k,
                   const std::string& norm, bool rows_are_k = true) {
  return prologue_norm_graph(
      type, m, n, k,
      norm + (rows_are_k ? "  %0 = MatMul(%n, %w)\n"
                         : "  %t = Transpose(%w) {perm = [1, 0]}\n  %0 = MatMul(%n, %t)\n"),
      rows_are_k ? fmt::format("%w: {}[{}, {}]", type, k, n)
                 : fmt::format("%w: {}[{}, {}]", type, n, k));
}

std::string bytes(const std::string& type, const std::string& m, int n, int k,
                  const std::string& norm, int group = 0) {
  const int groups = group == 0 ? 1 : (k + group - 1) / group;
  return prologue_norm_graph(
      type, m, n, k,
      norm + fmt::format("  %0 = MatMul(%n, %w, %s) {{w = \"i8 * f16 {}\"}}\n", spread(group)),
      fmt::format("%w: i8[{0}, {1}], %s: f16[{0}, {2}]", n, k, groups));
}

std::string rows_scheduled(const char* tile, int splits = 1) {
  const bool slices = std::string(tile).find("slices=") != std::string::npos;
  return fmt::format("{} {} split_k={} cluster_n=1", slices ? "int8_gemv" : "small_m", tile,
                     splits);
}

TEST(CudaPrologue, NormsOfOneRowAndOfAFew) {
  GemmCheck check;
  check.with_prologue = true;
  check.add("one", floats("f16", "1", 48, 520, kRms),
            rows_scheduled("1x32x128 warps=1x1x4 stages=3"));
  check.add("layer", floats("bf16", "1", 40, 256, kLayer, false),
            rows_scheduled("1x32x128 warps=1x1x2 stages=3", 2));
  check.add("three", floats("f16", "3", 72, 264, kRms, false),
            rows_scheduled("4x32x64 warps=1x1x2 stages=3"));
  check.add("eight", floats("f16", "8", 40, 1032, kLayer),
            rows_scheduled("8x32x256 warps=1x1x4 stages=2", 2));
  check.add("odd", floats("f16", "5", 37, 45, kRms),
            rows_scheduled("8x32x64 warps=1x1x2 stages=3"));
  check.add("warps", floats("bf16", "2", 72, 200, kRms),
            rows_scheduled("2x64x64 warps=1x2x2 stages=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaPrologue, RowsThatNoThreadsHold) {
  GemmCheck check;
  check.with_prologue = true;
  check.add("long", floats("f16", "2", 32, 4104, kLayer),
            rows_scheduled("2x32x64 warps=1x1x1 stages=2", 4));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaPrologue, QuantizedWeights) {
  GemmCheck check;
  check.with_prologue = true;
  check.programmatic_launch = true;
  check.add("columns", bytes("f16", "1", 48, 520, kRms),
            rows_scheduled("1x16x256 warps=1x1x4 stages=4"));
  check.add("groups", bytes("bf16", "4", 72, 256, kRms, 32),
            rows_scheduled("4x32x128 warps=1x1x2 stages=3", 2));
  check.add("digits", bytes("f16", "1", 48, 520, kRms),
            rows_scheduled("1x16x256 warps=1x1x4 stages=4 slices=3"));
  check.add("digits_of_groups", bytes("bf16", "3", 72, 256, kRms, 32),
            rows_scheduled("4x32x128 warps=1x1x2 stages=3 slices=3", 2));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaPrologue, NumberOfRowsKnownWhenItRuns) {
  GemmCheck check({{"m", {1, 8, nullptr}}});
  check.with_prologue = true;
  check.add("any", floats("f16", "m", 48, 320, kRms), "", {{{"m", 1}}, {{"m", 3}}, {{"m", 8}}});
  check.add("bytes", bytes("f16", "m", 48, 320, kRms), "", {{{"m", 2}}, {{"m", 7}}});
  EXPECT_EQ(check.run(), "");
}

TEST(CudaPrologue, ComputedByAnotherKernelTheyAreAnOperand) {
  GemmCheck check;
  check.add("made", floats("f16", "3", 72, 264, kRms), "");
  EXPECT_EQ(check.kernels[0].source.find("make_prologue"), std::string::npos);
  EXPECT_EQ(check.run(), "");
}

TEST(CudaPrologue, CompilesForEveryArchitecture) {
  GemmCheck check;
  check.with_prologue = true;
  check.programmatic_launch = true;
  check.add("one", floats("f16", "1", 256, 2048, kRms), "");
  check.add("few", bytes("bf16", "8", 384, 1536, kLayer), "");
  check.expect_code();
}

TEST(CudaPrologue, TilesOfFewerRowsAreRefused) {
  GemmCheck check;
  check.with_prologue = true;
  EXPECT_THROW(check.add("few", floats("f16", "5", 48, 512, kRms),
                         rows_scheduled("4x32x128 warps=1x1x4 stages=3")),
               Error);
  EXPECT_THROW(check.add("warps", floats("f16", "5", 48, 512, kRms),
                         "warp_tile 16x32x64 warps=1x1x1 stages=2 split_k=1 cluster_n=1"),
               Error);
}

}  // namespace
}  // namespace sinter::test
#endif
