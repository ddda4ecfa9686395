// SPDX-License-Identifier: Apache-2.0
// Product kernels: fused by the passes, emitted with given schedules, run on the emulator and
// compared with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gemm_check.h"
#include "gemm_graphs.h"

namespace sinter::test {
namespace {

std::string warp_tile_schedule(const char* tile, int splits, int across = 1) {
  return fmt::format("warp_tile {} split_k={} cluster_n={}", tile, splits, across);
}

TEST(CudaWarpTile, TilesSplitsAndWarpsOnRaggedSizes) {
  GemmCheck check;
  const char* tiles[] = {"16x32x128 warps=1x1x4 stages=4", "16x64x128 warps=1x2x2 stages=3",
                         "32x24x64 warps=2x1x2 stages=2", "64x32x64 warps=4x1x1 stages=4",
                         "64x64x32 warps=2x2x1 stages=3"};
  int number = 0;
  for (const char* tile : tiles)
    for (const int splits : {1, 2, 4})
      check.add(fmt::format("p{}", number++), pointwise_graph("f16", "37", 72, 200),
                warp_tile_schedule(tile, splits));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaWarpTile, LayoutsTypesAndAlignments) {
  GemmCheck check;
  const std::string tile = warp_tile_schedule("32x32x64 warps=2x2x1 stages=3", 2);
  check.add("bf16", pointwise_graph("bf16", "33", 40, 96), tile);
  check.add("nk", transposed_graph("f16", "33", 40, 96), tile);
  check.add("nk_bf16", transposed_graph("bf16", "17", 24, 64), tile);
  // Rows of 4, 2 and 1 elements' alignment.
  check.add("four", pointwise_graph("f16", "20", 36, 68), tile);
  check.add("two", transposed_graph("f16", "20", 34, 66), tile);
  check.add("odd", pointwise_graph("f16", "19", 37, 45), tile);
  check.add("odd_nk", transposed_graph("f16", "19", 37, 45), tile);
  check.add("row", pointwise_graph("f16", "1", 64, 128), tile);
  check.add("short", pointwise_graph("f16", "3", 16, 8), tile);
  EXPECT_EQ(check.run(), "");
}

TEST(CudaWarpTile, ChosenSchedulesTakeSymbolicRows) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  check.add("rows", pointwise_graph("f16", "m", 96, 64), "", {{{"m", 1}}, {{"m", 65}}});
  check.add("norm", norm_graph("m", 48, 64, true), "", {{{"m", 1}}, {{"m", 33}}});
  EXPECT_EQ(check.run(), "");
  EXPECT_GE(check.kernels[0].step.variants.size(), 2u);
  // The last takes every size on every GPU; norms are for few rows.
  EXPECT_EQ(check.kernels[0].step.variants.back()->cluster, 1u);
  EXPECT_TRUE(check.kernels[0].step.variants.back()->conditions.empty());
  for (const auto& variant : check.kernels[1].step.variants)
    EXPECT_FALSE(variant->conditions.empty());
}

TEST(CudaWarpTile, NormsOverRowsOfABlockAndOfAClusterWithSplits) {
  GemmCheck check;
  const auto add = [&](const char* name, const std::string& tile, int splits, int across, int n) {
    check.add(name, norm_graph("21", n, 72, false),
              warp_tile_schedule(tile.c_str(), splits, across));
  };
  add("block", "16x72x64 warps=1x1x4 stages=3", 1, 1, 72);
  add("block_splits", "16x72x64 warps=1x1x4 stages=3", 2, 1, 72);
  add("cluster", "16x24x64 warps=1x1x4 stages=3", 1, 3, 72);
  add("cluster_wide", "16x16x128 warps=1x1x4 stages=3", 1, 8, 128);
  add("cluster_splits", "32x24x32 warps=1x1x2 stages=3", 2, 4, 96);
  add("ragged", "16x32x64 warps=1x2x2 stages=3", 2, 3, 76);
  check.add("sum_kept", norm_graph("21", 72, 40, true),
            warp_tile_schedule("16x24x64 warps=1x1x4 stages=3", 2, 3));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaWarpTile, BatchesViewsAndSeveralOutputs) {
  GemmCheck check({{"b", {1, 64, nullptr}}, {"s", {1, 512, nullptr}}});
  // Head by head out of one packed tensor, stored head by head.
  check.add("heads",
            "graph @g(%x: f16[b, s, 96], %w: f16[b, 4, 24, 40], %m: f16[b, 1, s, 40]) {\n"
            "  %0 = Reshape(%x) {shape = [b, s, 4, 24]} : f16[b, s, 4, 24]\n"
            "  %1 = Transpose(%0) {perm = [0, 2, 1, 3]} : f16[b, 4, s, 24]\n"
            "  %2 = MatMul(%1, %w) : f16[b, 4, s, 40]\n"
            "  %3 = Sigmoid(%2) : f16[b, 4, s, 40]\n"
            "  %4 = Add(%3, %m) : f16[b, 4, s, 40]\n"
            "  return y = %4\n}\n",
            "", {{{"b", 2}, {"s", 19}}});
  // A second reader keeps the product too.
  check.add("two",
            "graph @g(%x: f16[s, 64], %w: f16[64, 48]) {\n"
            "  %0 = MatMul(%x, %w) : f16[s, 48]\n"
            "  %1 = Sigmoid(%0) : f16[s, 48]\n"
            "  %2 = Mul(%0, %1) : f16[s, 48]\n"
            "  return y = %2, z = %0\n}\n",
            "", {{{"s", 21}}});
  // Stored through a transpose, as attention's operands are.
  check.add("stored",
            "graph @g(%x: f16[b, s, 64], %w: f16[64, 48], %v: f16[48]) {\n"
            "  %0 = MatMul(%x, %w) : f16[b, s, 48]\n"
            "  %1 = Add(%0, %v) : f16[b, s, 48]\n"
            "  %2 = Tanh(%1) : f16[b, s, 48]\n"
            "  %3 = Reshape(%2) {shape = [b, s, 4, 12]} : f16[b, s, 4, 12]\n"
            "  %4 = Transpose(%3) {perm = [0, 2, 1, 3]} : f16[b, 4, s, 12]\n"
            "  return y = %4\n}\n",
            "", {{{"b", 2}, {"s", 9}}});
  EXPECT_EQ(check.run(), "");
}

TEST(CudaWarpTile, EarlyKernelsWaitBeforeTheyReadOrWrite) {
  GemmCheck check;
  check.programmatic_launch = true;
  const std::string tile = warp_tile_schedule("32x32x64 warps=2x2x1 stages=3", 2);
  check.add("early", pointwise_graph("f16", "33", 40, 96), tile);
  check.add("early_norm", norm_graph("33", 40, 96, false),
            warp_tile_schedule("16x24x64 warps=1x1x4 stages=3", 1, 2));
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels) {
    EXPECT_TRUE(kernel.step.variants[0]->programmatic_launch);
    const std::size_t wait = kernel.source.find("grid_dependency_wait();");
    ASSERT_NE(wait, std::string::npos);
    EXPECT_LT(wait, kernel.source.find("Tile::begin"));
    EXPECT_LT(wait, kernel.source.find("load<"));
  }
}

TEST(CudaWarpTile, CompilesForEveryArchitecture) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  check.add("chosen", pointwise_graph("f16", "m", 384, 384), "");
  check.add("norm", norm_graph("m", 384, 1536, true), "");
  check.add("wide", transposed_graph("bf16", "m", 128, 256),
            warp_tile_schedule("128x128x32 warps=2x4x1 stages=4", 2));
  check.expect_code();
}

TEST(CudaWarpTile, ForcedSchedulesThatDoNotFitAreRefused) {
  const auto message = [](const std::string& schedule) {
    return message_for(pointwise_graph("f16", "16", 32, 64), schedule);
  };
  EXPECT_THAT(message("warp_tile 64x32"), testing::HasSubstr("is no schedule of a product"));
  EXPECT_THAT(message(warp_tile_schedule("24x32x64 warps=1x1x1 stages=2", 1)),
              testing::HasSubstr("does not take kernel 'kernel_p'"));
  EXPECT_THAT(message(warp_tile_schedule("16x32x64 warps=1x1x1 stages=2", 32)),
              testing::HasSubstr("does not take kernel 'kernel_p'"));
}

}  // namespace
}  // namespace sinter::test
#endif
