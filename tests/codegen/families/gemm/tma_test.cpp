// SPDX-License-Identifier: Apache-2.0
// Products by warpgroups: emitted with given schedules, run on the emulator and compared with the
// reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gemm_check.h"
#include "gemm_graphs.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;

std::string tma_tile(const char* size, int groups, int stages, int splits, int across = 1) {
  return fmt::format("tma {}x64 warpgroups={} stages={} split_k={} cluster_n={}", size, groups,
                     stages, splits, across);
}

TEST(CudaTma, TilesGroupsAndStagesOnRaggedSizes) {
  GemmCheck check;
  check.add("one", pointwise_graph("f16", "70", 72, 200), tma_tile("64x64", 1, 4, 1));
  check.add("ring", pointwise_graph("f16", "70", 72, 456), tma_tile("64x64", 1, 3, 1));
  check.add("two_groups", pointwise_graph("f16", "150", 136, 264), tma_tile("128x128", 2, 2, 1));
  check.add("tall", pointwise_graph("f16", "150", 136, 136), tma_tile("128x128", 1, 2, 1));
  check.add("wide", pointwise_graph("f16", "65", 264, 136), tma_tile("64x256", 1, 2, 1));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaTma, WeightsByColumnsAndBothTypes) {
  GemmCheck check;
  check.add("bf16", pointwise_graph("bf16", "66", 64, 200), tma_tile("64x64", 1, 2, 1));
  check.add("nk_32", transposed_graph("f16", "66", 40, 200), tma_tile("64x32", 1, 3, 1));
  check.add("nk_96", transposed_graph("bf16", "66", 96, 136), tma_tile("64x96", 1, 2, 1));
  check.add("nk_192", transposed_graph("f16", "130", 192, 136), tma_tile("128x192", 2, 2, 1));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaTma, BlocksThatShareK) {
  GemmCheck check;
  check.add("splits", pointwise_graph("f16", "70", 72, 520), tma_tile("64x64", 1, 2, 3));
  check.add("idle_split", pointwise_graph("f16", "70", 72, 264), tma_tile("64x64", 1, 2, 4));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaTma, EarlyKernelsFetchWeightsFirst) {
  GemmCheck check;
  check.programmatic_launch = true;
  check.add("early", pointwise_graph("f16", "70", 64, 264), tma_tile("64x64", 1, 3, 2));
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(check.kernels[0].step.variants[0]->programmatic_launch);
}

TEST(CudaTma, BatchesAreDimensionsOfTheMaps) {
  GemmCheck check({{"b", {1, 64, nullptr}}, {"s", {64, 512, nullptr}}});
  check.by_warpgroups = true;
  check.add("heads",
            "graph @g(%x: f16[b, s, 96], %w: f16[b, 4, 24, 40], %m: f16[b, 1, s, 40]) {\n"
            "  %0 = Reshape(%x) {shape = [b, s, 4, 24]} : f16[b, s, 4, 24]\n"
            "  %1 = Transpose(%0) {perm = [0, 2, 1, 3]} : f16[b, 4, s, 24]\n"
            "  %2 = MatMul(%1, %w) : f16[b, 4, s, 40]\n"
            "  %3 = Sigmoid(%2) : f16[b, 4, s, 40]\n"
            "  %4 = Add(%3, %m) : f16[b, 4, s, 40]\n"
            "  return y = %4\n}\n",
            "", {{{"b", 2}, {"s", 70}}});
  // One matrix for all of a batch.
  check.add("shared",
            "graph @g(%x: f16[b, 3, s, 64], %w: f16[b, 1, 64, 48]) {\n"
            "  %0 = MatMul(%x, %w) : f16[b, 3, s, 48]\n"
            "  %1 = Sigmoid(%0) : f16[b, 3, s, 48]\n"
            "  return y = %1\n}\n",
            "", {{{"b", 2}, {"s", 65}}});
  EXPECT_EQ(check.run(), "");
  const auto& maps = check.kernels[0].step.variants[0]->maps;
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[0]->extents.size(), 4u);
}

TEST(CudaTma, HalvesOfTheColumnsMeet) {
  GemmCheck check;
  check.add("kn", gated_graph("f16", "130", 192, 200), tma_tile("128x128", 2, 3, 1));
  check.add("split", gated_graph("f16", "70", 72, 264), tma_tile("64x128", 1, 2, 2));
  check.add("nk", gated_graph("bf16", "70", 136, 136, true), tma_tile("64x64", 1, 3, 1));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaTma, ChosenSchedulesTakeSymbolicRows) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  check.by_warpgroups = true;
  check.add("rows", pointwise_graph("f16", "m", 128, 64), "", {{{"m", 1}}, {{"m", 130}}});
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(check.kernels[0].step.variants.back()->conditions.empty());
}

TEST(CudaTma, CodeIsForOneGpuAlone) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  check.add("gelu", pointwise_graph("f16", "300", 384, 384), tma_tile("128x128", 2, 3, 1));
  check.add("bf16", transposed_graph("bf16", "300", 192, 256), tma_tile("64x96", 1, 4, 2));
  for (const auto& compiled : check.compile()) {
    EXPECT_LT(compiled[0].code.size(), compiled[1].code.size());
    EXPECT_LT(compiled[2].code.size(), compiled[1].code.size());
  }
}

TEST(CudaTma, FormsThatDoNotFitAreRefused) {
  const std::string plain = pointwise_graph("f16", "70", 64, 64);
  const auto refused = HasSubstr("does not take kernel 'kernel_p'");
  EXPECT_THAT(message_for(plain, tma_tile("96x64", 1, 2, 1)), refused);
  EXPECT_THAT(message_for(plain, tma_tile("64x32", 1, 2, 1)), refused);    // boxes of 64 columns
  EXPECT_THAT(message_for(plain, tma_tile("256x256", 2, 2, 1)), refused);  // registers
  EXPECT_THAT(message_for(plain, tma_tile("64x64", 1, 40, 1)), refused);   // shared memory
  EXPECT_THAT(message_for(plain, tma_tile("64x64", 1, 2, 32)), refused);   // cluster
  EXPECT_THAT(message_for(norm_graph("70", 64, 64, false), tma_tile("64x64", 1, 2, 1)), refused);
  // Rows that are no multiple of 16 bytes.
  EXPECT_THAT(message_for(pointwise_graph("f16", "70", 64, 68), tma_tile("64x64", 1, 2, 1)),
              refused);
}

}  // namespace
}  // namespace sinter::test
#endif
