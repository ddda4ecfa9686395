// SPDX-License-Identifier: Apache-2.0
// Products of weights of 4 bits and rows of 8-bit floats: by warpgroups and by warps, emitted with
// given schedules, run on the emulator and compared with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/families/gemm/gemm_kernels.h"
#include "gemm_check.h"
#include "quantized_graphs.h"
#include "tests/codegen/emulation/compile_all.h"

namespace sinter::test {
namespace {

std::string w4a8_scheduled(const char* tile, int splits = 1) {
  return fmt::format("w4a8 {} split_k={} cluster_n=1", tile, splits);
}

TEST(CudaW4A8, EveryTileAndSplits) {
  GemmCheck check;
  check.add("narrow", four_by_eight_graph("70", 72, 528, {4, 128}),
            w4a8_scheduled("64x64x256 warpgroups=1 stages=2"));
  check.add("wide", four_by_eight_graph("33", 144, 528, {4, 0, "f32"}),
            w4a8_scheduled("64x128x256 warpgroups=2 stages=3", 2));
  check.add("rows", four_by_eight_graph("130", 200, 1040, {4, 128, "bf16"}),
            w4a8_scheduled("128x64x256 warpgroups=1 stages=2", 4));
  check.add("square", four_by_eight_graph("129", 136, 96, {4, 0}),
            w4a8_scheduled("128x128x256 warpgroups=2 stages=4"));
  check.add("large", four_by_eight_graph("260", 128, 1008, {4, 128}),
            w4a8_scheduled("256x128x256 warpgroups=2 stages=3", 2));
  check.add("two", four_by_eight_graph("65", 264, 208, {4, 64}),
            w4a8_scheduled("128x256x256 warpgroups=2 stages=2"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaW4A8, GroupsAndZeroPoints) {
  GemmCheck check;
  int number = 0;
  for (const int group : {0, 32, 96, 128, 256})
    for (const char* zeros : {"", "i8"}) {
      const Weights weights = {4, group, number % 3 == 0 ? "f32" : "f16", zeros};
      check.add(fmt::format("g{}", number), four_by_eight_graph("40", 80, 784, weights),
                w4a8_scheduled(number % 4 < 2 ? "64x64x256 warpgroups=1 stages=2"
                                              : "128x256x256 warpgroups=2 stages=2",
                               1 + number % 2));
      ++number;
    }
  EXPECT_EQ(check.run(), "");
}

TEST(CudaW4A8, GatesAreMadeOfBothHalvesOfTheColumns) {
  GemmCheck check;
  check.add("columns", four_by_eight_graph("70", 80, 272, {4, 0}, true),
            w4a8_scheduled("64x128x256 warpgroups=2 stages=2"));
  check.add("groups", four_by_eight_graph("20", 48, 256, {4, 32}, true),
            w4a8_scheduled("64x64x256 warpgroups=1 stages=2"));
  check.add("few", four_by_eight_graph("3", 48, 256, {4, 32}, true),
            small_m_scheduled("4x32x256 warps=1x1x4 stages=3"));
  EXPECT_EQ(check.run(), "");
}

/// The same weights, in the same order, for rows that are too few for warpgroups, or that any GPU
/// has.
TEST(CudaW4A8, WarpsMultiplyWidenedRows) {
  GemmCheck check;
  check.add("one", four_by_eight_graph("1", 48, 528, {4, 128}),
            small_m_scheduled("1x16x256 warps=1x1x4 stages=4"));
  check.add("few", four_by_eight_graph("7", 72, 520, {4, 0, "f32"}),
            small_m_scheduled("8x32x256 warps=1x1x4 stages=3", 2));
  check.add("single", four_by_eight_graph("3", 72, 137, {4, 16}),
            small_m_scheduled("4x32x128 warps=1x1x2 stages=4"));
  check.add("zeros", four_by_eight_graph("16", 72, 272, {4, 32, "f16", "f32"}),
            small_m_scheduled("16x64x64 warps=1x2x1 stages=2", 4));
  check.add("many", four_by_eight_graph("70", 40, 260, {4, 64, "f16", "i8"}),
            small_m_scheduled("64x64x64 warps=1x4x1 stages=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaW4A8, ChosenSchedulesTakeSymbolicRows) {
  GemmCheck check({{"m", {1, 8192, nullptr}}});
  check.programmatic_launch = true;
  check.add("few", four_by_eight_graph("m", 64, 256, {4, 64}), "", {{{"m", 5}}});
  check.by_warpgroups = true;
  check.add("many", four_by_eight_graph("m", 96, 320, {4, 64}), "",
            {{{"m", 17}}, {{"m", 65}}, {{"m", 300}}});
  EXPECT_EQ(check.run(), "");
  for (const auto& variant : check.kernels.back().step.variants)
    EXPECT_EQ(variant->maps.size(), 1u);
}

TEST(CudaW4A8, CompilesForTheGpusThatHaveThem) {
  GemmCheck check;
  check.add("large", four_by_eight_graph("300", 384, 1536, {4, 128}),
            w4a8_scheduled("256x128x256 warpgroups=2 stages=4"));
  check.add("zeros", four_by_eight_graph("300", 384, 1536, {4, 64, "bf16", "i8"}),
            w4a8_scheduled("128x128x256 warpgroups=2 stages=4", 2));
  check.add("columns", four_by_eight_graph("60", 384, 384, {4, 0}),
            w4a8_scheduled("128x256x256 warpgroups=2 stages=3"));
  check.add("few", four_by_eight_graph("2", 384, 384, {4, 32}),
            small_m_scheduled("4x32x256 warps=1x1x4 stages=3"));
  const auto compiled = check.compile({"sm_80", "sm_89", "sm_90", "sm_100"});
  for (const auto& kernel : compiled) EXPECT_GT(kernel[2].code.size(), 10000u);
  for (const auto& code : compiled.back()) EXPECT_GT(code.code.size(), 5000u);
}

TEST(CudaW4A8, WhatIsNotTakenIsRefused) {
  const auto message = [](int k, const Weights& weights) {
    return message_for(four_by_eight_graph("100", 64, k, weights),
                       w4a8_scheduled("64x64x256 warpgroups=1 stages=2"));
  };
  EXPECT_EQ(message(480, {4, 32}), "accepted");
  EXPECT_EQ(message(480, {4, 64, "f16", "i8"}), "accepted");
  // Groups that are no whole products, zero points that 4 bits have not, rows that no copy takes.
  EXPECT_THAT(message(480, {4, 48}), testing::HasSubstr("does not take kernel 'kernel_p'"));
  EXPECT_THAT(message(480, {4, 64, "f16", "f32"}),
              testing::HasSubstr("does not take kernel 'kernel_p'"));
  EXPECT_THAT(message(472, {4, 0}), testing::HasSubstr("does not take kernel 'kernel_p'"));
}

/// Schedules of one kernel that widen to floats of another width than x has.
TEST(CudaW4A8, SchedulesAreForRowsOfTheirWidth) {
  EXPECT_THAT(message_for(four_by_eight_graph("100", 64, 480, {4, 32}),
                          "mixed_input 64x64x128 warpgroups=1 stages=2 split_k=1 cluster_n=1"),
              testing::HasSubstr("does not take kernel 'kernel_p'"));
  EXPECT_THAT(message_for(quantized_graph("f16", "100", 64, 480, {4, 32}),
                          w4a8_scheduled("64x64x256 warpgroups=1 stages=2")),
              testing::HasSubstr("does not take kernel 'kernel_p'"));
}

}  // namespace
}  // namespace sinter::test
#endif
