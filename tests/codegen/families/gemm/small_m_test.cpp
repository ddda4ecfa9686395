// SPDX-License-Identifier: Apache-2.0
// Products of few rows, with weights of 16 bits and of few: emitted with given schedules, run on
// the emulator and compared with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <array>
#include <cstdio>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/gemm/weights/weight_pack.h"
#include "gemm_check.h"
#include "gemm_graphs.h"
#include "quantized_graphs.h"

namespace sinter::test {
namespace {

/// y = tanh(x w) * r with weights of x's type, [k, n] or [n, k].
std::string float_graph(const std::string& type, int m, int n, int k, bool rows_are_k) {
  return fmt::format(
      "graph @g(%x: {0}[{1}, {3}], %w: {0}[{4}], %r: {0}[{1}, {2}]) {{\n{5}"
      "  %1 = MatMul(%x, {6}) : {0}[{1}, {2}]\n"
      "  %2 = Tanh(%1) : {0}[{1}, {2}]\n"
      "  %3 = Mul(%2, %r) : {0}[{1}, {2}]\n"
      "  return y = %3\n}}\n",
      type, m, n, k, rows_are_k ? fmt::format("{}, {}", k, n) : fmt::format("{}, {}", n, k),
      rows_are_k ? ""
                 : fmt::format("  %0 = Transpose(%w) {{perm = [1, 0]}} : {}[{}, {}]\n", type, k, n),
      rows_are_k ? "%w" : "%0");
}

TEST(CudaSmallM, BytesOfWholeColumns) {
  GemmCheck check;
  check.add("one", quantized_graph("f16", "1", 48, 520, {}),
            small_m_scheduled("1x16x256 warps=1x1x4 stages=4"));
  check.add("few", quantized_graph("f16", "7", 72, 520, {}),
            small_m_scheduled("8x32x256 warps=1x1x4 stages=3", 2));
  check.add("bf16", quantized_graph("bf16", "3", 72, 136, {8, 0, "f32"}),
            small_m_scheduled("4x64x64 warps=1x2x2 stages=4"));
  check.add("more", quantized_graph("f16", "37", 72, 200, {8, 0, "bf16"}),
            small_m_scheduled("16x64x64 warps=1x2x1 stages=2", 4));
  check.add("many", quantized_graph("bf16", "70", 40, 96, {}),
            small_m_scheduled("64x64x64 warps=1x4x1 stages=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSmallM, GroupsOfSixteenAndMore) {
  GemmCheck check;
  add_groups(check, {16, 32, 48, 64, 128, 256, 272, 520, 1000}, "4x32x256 warps=1x1x4 stages=3");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSmallM, ZeroPointsOfIntegersAndOfAnyNumber) {
  GemmCheck check;
  int number = 0;
  for (const char* zeros : {"i8", "f32"})
    for (const int group : {0, 32, 128})
      for (const int bits : {8, 4})
        for (const char* type : {"f16", "bf16"})
          check.add(fmt::format("z{}", number++),
                    quantized_graph(type, "2", 33, 264, {bits, group, "f16", zeros}),
                    small_m_scheduled("2x16x128 warps=1x1x2 stages=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSmallM, FloatWeightsOfBothOrders) {
  GemmCheck check;
  int number = 0;
  for (const bool rows_are_k : {false, true})
    for (const char* type : {"f16", "bf16"})
      for (const int m : {1, 5, 16}) {
        const int rows = m == 5 ? 8 : m;
        const std::string tile = fmt::format("{}x32x128 warps=1x1x2 stages=3", rows);
        check.add(fmt::format("f{}", number), float_graph(type, m, 72, 520, rows_are_k),
                  small_m_scheduled(tile.c_str(), 1 + number % 2));
        ++number;
      }
  // Rows of 4, 2 and 1 elements' alignment.
  check.add("four", float_graph("f16", 2, 36, 68, true),
            small_m_scheduled("2x32x64 warps=1x1x2 stages=3"));
  check.add("two", float_graph("f16", 2, 34, 66, false),
            small_m_scheduled("2x32x64 warps=1x1x2 stages=3"));
  check.add("odd", float_graph("f16", 2, 37, 45, true),
            small_m_scheduled("2x32x64 warps=1x1x2 stages=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSmallM, PackedFloatWeightsOfBothOrders) {
  GemmCheck check;
  check.packs_elements = true;
  int number = 0;
  for (const bool rows_are_k : {false, true})
    for (const char* type : {"f16", "bf16"})
      for (const int m : {1, 5, 16}) {
        const int rows = m == 5 ? 8 : m;
        const std::string tile =
            fmt::format("{}x32x128 warps=1x{}x2 stages=3", rows, 1 + number % 2);
        check.add(fmt::format("p{}", number), float_graph(type, m, 72, 520, rows_are_k),
                  small_m_scheduled(tile.c_str(), 1 + number % 2));
        ++number;
      }
  check.add("odd", float_graph("f16", 3, 37, 45, true), "");
  check.add("odd_k", float_graph("bf16", 2, 33, 523, false), "");
  check.add("short", float_graph("f16", 1, 3, 7, true), "");
  check.add("gate", gate_graph("2", 64, 320, 16), "");
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels)
    EXPECT_THAT(kernel.source, testing::HasSubstr("PackedElements, NoScales"));
}

TEST(CudaSmallM, FewRowsOfFloatWeightsByRowsOfK) {
  GemmCheck check;
  check.programmatic_launch = true;
  check.add("one", float_graph("f16", 1, 40, 2056, false), "");
  check.add("short", float_graph("bf16", 3, 72, 40, false), "");
  check.add("sixteen", float_graph("f16", 16, 88, 1032, false), "");
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels)
    EXPECT_THAT(kernel.source, testing::HasSubstr("SmallMTile<")) << kernel.source;
}

// Whole tiles and what is left of them, in rows, columns and k, as far apart as warps may copy.
TEST(CudaSmallM, WeightsByRowsOfKAreCopiedFromOneAddressOfALane) {
  GemmCheck check;
  int number = 0;
  for (const char* tile : {"4x32x64 warps=1x1x2", "8x32x128 warps=1x2x2", "4x16x256 warps=1x1x2",
                           "8x48x64 warps=1x1x1", "1x32x256 warps=1x2x1", "1x16x512 warps=1x1x1"}) {
    const std::string text = fmt::format("{} stages=3", tile);
    const char* type = number % 2 == 0 ? "f16" : "bf16";
    check.add(fmt::format("whole{}", number), transposed_graph(type, "4", 96, 768),
              small_m_scheduled(text.c_str()));
    check.add(fmt::format("rest{}", number), transposed_graph(type, "3", 72, 520),
              small_m_scheduled(text.c_str(), 1 + number % 2));
    ++number;
  }
  for (const int halves : {48, 40})
    for (const char* tile : {"4x32x128 warps=1x1x2 stages=4", "8x64x64 warps=1x2x2 stages=3",
                             "4x96x64 warps=1x2x2 stages=2", "4x96x64 warps=1x3x1 stages=3"})
      check.add(fmt::format("gate{}", number++),
                gated_graph("f16", "3", halves, halves == 48 ? 512 : 328, true),
                small_m_scheduled(tile));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSmallM, GatesAreMadeOfBothHalvesOfTheColumns) {
  GemmCheck check;
  check.add("bytes", gate_graph("3", 48, 264, 8),
            small_m_scheduled("4x32x128 warps=1x1x2 stages=3", 2));
  check.add("warps", gate_graph("3", 48, 264, 8),
            small_m_scheduled("4x64x64 warps=1x4x1 stages=3"));
  check.add("groups", gate_graph("1", 80, 256, 4, 32),
            small_m_scheduled("1x64x128 warps=1x1x2 stages=3"));
  check.add("float", gate_graph("9", 40, 96, 16),
            small_m_scheduled("16x32x64 warps=1x1x2 stages=3"));
  check.add("chosen", gate_graph("2", 64, 320, 8), "");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSmallM, WeightsAreFloatsOfFourBits) {
  const auto floats = [](int group, const char* scales) {
    return Weights{4, group, scales, "", true};
  };
  GemmCheck check;
  check.add("nv", quantized_graph("f16", "1", 48, 520, floats(16, "f16")),
            small_m_scheduled("1x32x128 warps=1x1x2 stages=3", 2));
  check.add("mx", quantized_graph("bf16", "3", 72, 160, floats(32, "bf16")),
            small_m_scheduled("4x32x128 warps=1x2x1 stages=3"));
  check.add("chosen", quantized_graph("f16", "7", 33, 264, floats(16, "f16")), "");
  // Scales of models that halves do not hold stay as they are.
  check.add("wide", quantized_graph("f16", "3", 33, 264, floats(16, "f32")), "");
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels)
    EXPECT_THAT(kernel.source, testing::HasSubstr("PackedFloats4"));
  EXPECT_THAT(check.kernels.back().source, testing::HasSubstr("Scales<float, 16>"));
}

TEST(CudaSmallM, ScalesAreFloatsOfEightBitsWithFactors) {
  const auto floats = [](int group) { return Weights{4, group, "f8e4m3fn", "", true}; };
  GemmCheck check;
  check.add("nv", quantized_graph("f16", "1", 48, 520, floats(16)),
            small_m_scheduled("1x32x128 warps=1x1x2 stages=3", 2));
  check.add("mx", quantized_graph("bf16", "3", 72, 160, floats(32)),
            small_m_scheduled("4x32x128 warps=1x2x1 stages=3"));
  check.add("many", quantized_graph("bf16", "37", 40, 96, floats(16)),
            small_m_scheduled("64x64x64 warps=1x4x1 stages=3"));
  check.add("chosen", quantized_graph("f16", "7", 33, 264, floats(16)), "");
  check.add("gate", gate_graph("3", 48, 264, 4, 16, true),
            small_m_scheduled("4x64x64 warps=1x4x1 stages=3"));
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels)
    EXPECT_THAT(kernel.source, testing::HasSubstr("Scales<e4m3fn, "));
  for (const auto& compiled : check.compile({"sm_80", "sm_90", "sm_100"}))
    for (const auto& code : compiled) EXPECT_GT(code.code.size(), 1000u);
}

TEST(CudaSmallM, WeightsAreFloatsOfEightBits) {
  const auto floats = [](int group, const char* scales) {
    return Weights{8, group, scales, "", true};
  };
  GemmCheck check;
  check.add("one", quantized_graph("f16", "1", 48, 520, floats(0, "f32")),
            small_m_scheduled("1x32x128 warps=1x1x2 stages=3", 2));
  check.add("bf16", quantized_graph("bf16", "3", 72, 136, floats(0, "f32")),
            small_m_scheduled("4x32x128 warps=1x2x1 stages=3"));
  check.add("groups", quantized_graph("f16", "7", 33, 264, floats(64, "f16")), "");
  check.add("many", quantized_graph("bf16", "37", 40, 96, floats(0, "f16")), "");
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels) {
    EXPECT_THAT(kernel.source, testing::HasSubstr("PackedFloats"));
    for (const auto& variant : kernel.step.variants)
      EXPECT_THAT(variant->schedule, testing::Not(testing::HasSubstr("int8_gemv")));
  }
}

TEST(CudaSmallM, OddSizesOfQuantizedWeights) {
  GemmCheck check;
  check.add("odd8", quantized_graph("f16", "3", 37, 45, {8, 16}), "");
  check.add("odd4", quantized_graph("bf16", "3", 37, 45, {4, 32}), "");
  check.add("short", quantized_graph("f16", "1", 3, 7, {4, 0}), "");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSmallM, ChosenSchedulesTakeSymbolicRows) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  check.add("eight", quantized_graph("f16", "m", 96, 320, {}), "",
            {{{"m", 1}}, {{"m", 9}}, {{"m", 65}}});
  check.add("four", quantized_graph("bf16", "m", 64, 256, {4, 64}), "", {{{"m", 1}}, {{"m", 20}}});
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels) {
    // The last takes every size on every GPU.
    EXPECT_EQ(kernel.step.variants.back()->cluster, 1u);
    EXPECT_TRUE(kernel.step.variants.back()->conditions.empty());
  }
}

// What is computed of a row then does not depend on how many others there are.
TEST(CudaSmallM, AnyNumberOfFewRowsIsSummedUpInOneOrder) {
  const std::vector<ir::Bindings> rows = {{{"m", 1}}, {{"m", 3}}, {{"m", 8}}};
  GemmCheck check({{"m", {1, 8, nullptr}}});
  check.b_is_weight = true;
  check.add("floats", transposed_graph("f16", "m", 72, 2056), "", rows);
  check.add("gate", gated_graph("bf16", "m", 40, 1032, true), "", rows);
  check.add("four", quantized_graph("f16", "m", 64, 512, {4, 64}), "", rows);
  check.packs_elements = true;
  check.add("packed", transposed_graph("f16", "m", 72, 2056), "", rows);
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels) {
    std::set<std::array<int, 3>> orders;
    for (const auto& variant : kernel.step.variants) {
      int m = 0, n = 0, k = 0, along_n = 0, along_k = 0, stages = 0, split = 0;
      EXPECT_EQ(std::sscanf(variant->schedule.c_str(),
                            "small_m %dx%dx%d warps=1x%dx%d stages=%d split_k=%d", &m, &n, &k,
                            &along_n, &along_k, &stages, &split),
                7)
          << variant->schedule;
      orders.insert({k, along_k, split});
    }
    EXPECT_EQ(orders.size(), 1U) << kernel.source;
    EXPECT_TRUE(kernel.step.variants.back()->conditions.empty());
  }
}

TEST(CudaSmallM, EarlyKernelsFetchWeightsBeforeTheyWait) {
  GemmCheck check;
  check.programmatic_launch = true;
  check.add("early", quantized_graph("f16", "3", 40, 256, {}),
            small_m_scheduled("4x32x128 warps=1x1x2 stages=3", 2));
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(check.kernels[0].step.variants[0]->programmatic_launch);
}

TEST(CudaSmallM, CompilesForEveryArchitecture) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  check.add("eight", quantized_graph("f16", "m", 384, 384, {}), "");
  check.add("four", quantized_graph("bf16", "m", 384, 1536, {4, 128, "f16", "i8"}), "");
  check.add("floats", quantized_graph("f16", "m", 384, 384, {8, 0, "f32", "", true}), "");
  check.add("float", float_graph("bf16", 1, 256, 512, true), "");
  check.expect_code();
}

TEST(CudaSmallM, CopiesOfRowsInPartsAreAligned) {
  // Of 2 x 85 columns the second half begins at an odd element: two at a time would be misaligned.
  GemmCheck check;
  check.add("odd", gated_graph("f16", "20", 85, 32), "");
  check.add("even", gated_graph("f16", "20", 86, 32), "");
  ASSERT_EQ(check.kernels.size(), 2U);
  EXPECT_THAT(check.kernels[0].source, testing::HasSubstr("copies=8,1 "));
  EXPECT_THAT(check.kernels[0].source, testing::Not(testing::HasSubstr("copies=8,2 ")));
  EXPECT_THAT(check.kernels[1].source, testing::HasSubstr("copies=8,2 "));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSmallM, WhatIsNotTakenIsRefused) {
  const auto message = [](const Weights& weights, const std::string& schedule) {
    return message_for(quantized_graph("f16", "4", 32, 240, weights), schedule);
  };
  EXPECT_THAT(message({}, small_m_scheduled("12x32x64 warps=1x1x1 stages=2")),
              testing::HasSubstr("does not take kernel 'kernel_p'"));
  EXPECT_THAT(message({}, "warp_tile 16x32x64 warps=1x1x1 stages=2 split_k=1 cluster_n=1"),
              testing::HasSubstr("does not take kernel 'kernel_p'"));
  EXPECT_EQ(codegen::refuse_groups(24, 240), "groups of 24 are no multiple of 16");
  EXPECT_EQ(codegen::refuse_groups(240, 240), "");
}

TEST(CudaSmallM, ZeroPointsBeyondTheTypeAreRefused) {
  const ir::ScaledTensor weights = ir::scaled_rows_of(
      8, 0, 16, ir::Tensor(DType::kInt8, {1, 16}, ir::Buffer::take(std::vector<std::byte>(16))),
      ir::Tensor::from_doubles(DType::kFloat32, {1, 1}, std::vector<double>{1e-8}),
      ir::Tensor::from_doubles(DType::kFloat32, {1, 1}, std::vector<double>{1e6}));
  EXPECT_THROW(codegen::pack_weights(weights, DType::kFloat16), Error);
  EXPECT_EQ(codegen::pack_weights(weights, DType::kBFloat16).zeros->at(0), 999424);
}

}  // namespace
}  // namespace sinter::test
#endif
