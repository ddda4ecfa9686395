// SPDX-License-Identifier: Apache-2.0
// Products by warpgroups with packed weights: emitted with given schedules, run on the emulator and
// compared with the reference evaluation of their region.
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

std::string packed_scheduled(const char* tile, int splits = 1) {
  return fmt::format("mixed_input {} split_k={} cluster_n=1", tile, splits);
}

TEST(CudaMixedInput, EveryTileAndSplits) {
  GemmCheck check;
  check.add("wide", quantized_graph("f16", "70", 144, 520, {}),
            packed_scheduled("64x128x128 warpgroups=2 stages=3"));
  check.add("narrow", quantized_graph("bf16", "33", 72, 264, {8, 0, "f32"}),
            packed_scheduled("64x64x128 warpgroups=1 stages=3", 2));
  check.add("rows", quantized_graph("f16", "130", 200, 600, {}),
            packed_scheduled("128x64x128 warpgroups=1 stages=4", 4));
  check.add("square", quantized_graph("f16", "129", 136, 96, {}),
            packed_scheduled("128x128x128 warpgroups=2 stages=4"));
  check.add("large", quantized_graph("f16", "260", 128, 1000, {8, 0, "bf16"}),
            packed_scheduled("256x128x128 warpgroups=2 stages=3", 2));
  check.add("two", quantized_graph("f16", "65", 264, 200, {}),
            packed_scheduled("128x256x128 warpgroups=2 stages=2"));
  check.add("floats", quantized_graph("f16", "70", 144, 520, {8, 0, "f32", "", true}),
            packed_scheduled("64x128x128 warpgroups=2 stages=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaMixedInput, GroupsAndZeroPoints) {
  GemmCheck check;
  int number = 0;
  for (const int group : {0, 16, 32, 64, 128, 512})
    for (const int bits : {8, 4})
      for (const char* zeros : {"", "i8"}) {
        const char* type = number % 3 == 0 ? "bf16" : "f16";
        const Weights weights = {bits, group, type, zeros};
        check.add(fmt::format("g{}", number), quantized_graph(type, "40", 80, 520, weights),
                  packed_scheduled("64x64x128 warpgroups=1 stages=2", 1 + number % 2));
        ++number;
      }
  EXPECT_EQ(check.run(), "");
}

TEST(CudaMixedInput, ScalesAreFloatsOfEightBitsWithFactors) {
  GemmCheck check;
  int number = 0;
  for (const char* type : {"f16", "bf16"})
    for (const int group : {16, 32})
      check.add(fmt::format("e{}", number),
                quantized_graph(type, "40", 80, 520, {4, group, "f8e4m3fn", "", true}),
                packed_scheduled("64x64x128 warpgroups=1 stages=2", 1 + number++ % 2));
  check.add("gate", gate_graph("20", 48, 256, 4, 16, true),
            packed_scheduled("64x64x128 warpgroups=1 stages=2", 2));
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.compile({"sm_90"})) EXPECT_GT(kernel[0].code.size(), 10000u);
}

TEST(CudaMixedInput, GatesAreMadeOfBothHalvesOfTheColumns) {
  GemmCheck check;
  check.add("bytes", gate_graph("70", 80, 264, 8),
            packed_scheduled("64x128x128 warpgroups=2 stages=2"));
  check.add("groups", gate_graph("20", 48, 256, 4, 32),
            packed_scheduled("64x64x128 warpgroups=1 stages=2", 2));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaMixedInput, ChosenSchedulesTakeSymbolicRows) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  check.by_warpgroups = true;
  check.programmatic_launch = true;
  check.add("eight", quantized_graph("f16", "m", 96, 320, {}), "",
            {{{"m", 17}}, {{"m", 65}}, {{"m", 300}}});
  check.add("four", quantized_graph("bf16", "m", 64, 256, {4, 64, "bf16"}), "", {{{"m", 100}}});
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels)
    for (const auto& variant : kernel.step.variants) {
      EXPECT_EQ(variant->maps.size(), 1u);
      EXPECT_TRUE(variant->programmatic_launch);
    }
}

TEST(CudaMixedInput, CompilesForTheGpusThatHaveThem) {
  GemmCheck check;
  check.add("eight", quantized_graph("f16", "300", 384, 384, {}),
            packed_scheduled("256x128x128 warpgroups=2 stages=4"));
  check.add("four", quantized_graph("bf16", "300", 384, 1536, {4, 128, "bf16", "i8"}),
            packed_scheduled("128x128x128 warpgroups=2 stages=4", 2));
  check.add("few", quantized_graph("f16", "60", 384, 384, {4, 32}),
            packed_scheduled("64x64x128 warpgroups=1 stages=3"));
  std::vector<std::string> sources;
  for (const auto& kernel : check.kernels) sources.push_back(kernel.source);
  const auto compiled =
      codegen::compile_cuda(sources, std::vector<std::string>{"sm_80", "sm_90", "sm_100"});
  for (const auto& kernel : compiled) EXPECT_GT(kernel[1].code.size(), 10000u);
}

TEST(CudaMixedInput, WhatIsNotTakenIsRefused) {
  const auto message = [](const Weights& weights) {
    return message_for(quantized_graph("f16", "100", 64, 480, weights),
                       packed_scheduled("64x64x128 warpgroups=1 stages=2"));
  };
  EXPECT_EQ(message({8, 0, "f32"}), "accepted");
  EXPECT_EQ(message({8, 64}), "accepted");
  // Scales of another type than x's, and groups that are no parts of 64 of k.
  EXPECT_THAT(message({8, 64, "bf16"}), testing::HasSubstr("does not take kernel 'kernel_p'"));
  EXPECT_THAT(message({8, 48}), testing::HasSubstr("does not take kernel 'kernel_p'"));
}

/// 128 blocks in clusters of four do not all fit 132 multiprocessors at once, those of two do.
TEST(CudaMixedInput, ClustersThatLeaveMultiprocessorsOverCostAnotherWave) {
  codegen::GemmProgram product;
  product.weights.emplace().format = ir::ScaleFormat::parse("i8 * f32 row");
  codegen::GemmProblem problem{product, codegen::reference_device()};
  problem.n = 4096, problem.k = 14336;
  const auto estimate = [&](int m, int split_k) {
    const auto s = codegen::kMixedInputKernel.parse(fmt::format(
        "mixed_input {}x128x128 warpgroups=2 stages=4 split_k={} cluster_n=1", m, split_k));
    return s->tile->estimate(problem, *s, 256);
  };
  EXPECT_GT(estimate(256, 4), 1.5 * estimate(128, 2));
  EXPECT_GT(estimate(256, 2), 1.5 * estimate(128, 2));  // half of the multiprocessors
}

}  // namespace
}  // namespace sinter::test
#endif
