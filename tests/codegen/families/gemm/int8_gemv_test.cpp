// SPDX-License-Identifier: Apache-2.0
// Products of few rows in integers: emitted with given schedules, run on the emulator and compared
// with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quantized_graphs.h"

namespace sinter::test {
namespace {

TEST(CudaInt8Gemv, BytesAndHalfBytes) {
  GemmCheck check;
  check.add("one", quantized_graph("f16", "1", 48, 520, {}),
            small_m_scheduled("1x16x256 warps=1x1x4 stages=4 slices=3"));
  check.add("two", quantized_graph("f16", "2", 72, 1032, {8, 0, "f32"}),
            small_m_scheduled("2x32x256 warps=1x1x4 stages=3 slices=3", 2));
  check.add("three", quantized_graph("bf16", "3", 72, 136, {8, 0, "f32"}),
            small_m_scheduled("4x32x128 warps=1x1x2 stages=4 slices=3"));
  check.add("less", quantized_graph("bf16", "3", 40, 768, {8, 0, "f32"}),
            small_m_scheduled("4x16x128 warps=1x1x1 stages=4 slices=2", 4));
  add_groups(check, {32, 64, 96, 128, 256, 520, 1000}, "4x32x256 warps=1x1x4 stages=3 slices=3");
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels)
    EXPECT_THAT(kernel.source, testing::HasSubstr("WithAccumulators<Int8Tile<"));
}

TEST(CudaInt8Gemv, WeightsWithZeroPoints) {
  GemmCheck check;
  int number = 0;
  for (const char* zeros : {"i8", "f32"})
    for (const int group : {0, 32, 128})
      for (const int bits : {8, 4})
        check.add(fmt::format("z{}", number++),
                  quantized_graph("f16", "2", 33, 264, {bits, group, "f16", zeros}),
                  small_m_scheduled("2x16x128 warps=1x1x2 stages=3 slices=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaInt8Gemv, GatesAndEarlyKernels) {
  GemmCheck check;
  check.add("gate", gate_graph("3", 48, 264, 8),
            small_m_scheduled("4x32x128 warps=1x1x2 stages=3 slices=3", 2));
  check.add("groups", gate_graph("1", 80, 256, 4, 32),
            small_m_scheduled("1x64x128 warps=1x1x2 stages=3 slices=3"));
  check.programmatic_launch = true;
  check.add("early", quantized_graph("f16", "1", 40, 256, {4, 64}),
            small_m_scheduled("1x32x128 warps=1x1x2 stages=3 slices=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaInt8Gemv, WhatIsNotTakenIsRefused) {
  const auto message = [](const Weights& weights, const std::string& tile) {
    return message_for(quantized_graph("f16", "4", 32, 240, weights),
                       small_m_scheduled(tile.c_str()));
  };
  // Int8Slices: of a few rows, of columns that warps do not share, of groups of 32, two or three.
  for (const char* tile :
       {"8x32x64 warps=1x1x1 stages=2 slices=3", "4x32x64 warps=1x2x1 stages=2 slices=3",
        "4x32x32 warps=1x1x1 stages=2 slices=3", "4x32x64 warps=1x1x1 stages=2 slices=4"})
    EXPECT_THAT(message({}, tile), testing::HasSubstr("does not take kernel")) << tile;
  EXPECT_THAT(message({8, 16}, "4x32x64 warps=1x1x1 stages=2 slices=3"),
              testing::HasSubstr("does not take kernel"));
}

}  // namespace
}  // namespace sinter::test
#endif
