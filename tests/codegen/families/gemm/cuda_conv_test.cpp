// SPDX-License-Identifier: Apache-2.0
// Convolutions as products over windows: emitted with given schedules, run on the emulator and
// compared with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conv_regions.h"
#include "gemm_check.h"

namespace sinter::test {
namespace {

std::string scheduled(const char* tile, int splits, int across = 1) {
  return fmt::format("warp_tile {} split_k={} cluster_n={}", tile, splits, across);
}

void add(GemmCheck& check, const ConvCase& conv, const std::string& schedule) {
  check.add(conv.name, conv_region(conv), schedule);
}

TEST(CudaConv, WindowsOfOneToThreeDimensions) {
  GemmCheck check;
  const std::string tile = scheduled("32x32x64 warps=2x2x1 stages=3", 1);
  const std::vector<std::int64_t> same1 = {1}, same2 = {1, 1}, same3 = {1, 1, 1};
  add(check, {"line", 2, {17}, 16, 24, {3}, {}, {}, same1, same1}, tile);
  add(check, {"plane", 2, {7, 9}, 16, 40, {3, 3}, {}, {}, same2, same2}, tile);
  add(check, {"box", 1, {4, 5, 3}, 8, 16, {3, 2, 3}, {}, {}, same3, {0, 1, 1}}, tile);
  add(check, {"one", 3, {5, 5}, 24, 16, {1, 1}}, tile);
  EXPECT_EQ(check.run(), "");
}

TEST(CudaConv, StridesDilationsAndUnequalPads) {
  GemmCheck check;
  const std::string tile = scheduled("32x32x64 warps=2x2x1 stages=3", 1);
  add(check, {"strides", 2, {11, 8}, 8, 16, {3, 3}, {2, 3}, {}, {1, 0}, {0, 2}}, tile);
  add(check, {"strided_one", 2, {9, 9}, 16, 16, {1, 1}, {2, 2}}, tile);
  add(check, {"dilations", 1, {12, 10}, 16, 24, {3, 2}, {1, 2}, {2, 3}, {2, 4}, {1, 0}}, tile);
  add(check, {"mostly_pads", 1, {2, 1}, 8, 16, {5, 3}, {}, {}, {4, 2}, {4, 2}}, tile);
  add(check, {"rows_and_columns", 1, {6, 7}, 8, 16, {1, 7}, {}, {}, {0, 3}, {0, 3}}, tile);
  EXPECT_EQ(check.run(), "");
}

TEST(CudaConv, ChannelsOfEveryAlignment) {
  GemmCheck check;
  const char* tiles[] = {"32x32x64 warps=2x2x1 stages=3", "16x32x128 warps=1x1x4 stages=4",
                         "64x32x64 warps=4x1x1 stages=2"};
  int number = 0;
  for (const char* tile : tiles)
    for (const std::int64_t channels : {1, 2, 3, 4, 12, 72})
      add(check,
          {fmt::format("c{}_{}", channels, number++),
           1,
           {8, 9},
           channels,
           16,
           {3, 3},
           {2, 1},
           {},
           {1, 1},
           {1, 1}},
          scheduled(tile, 1));
  EXPECT_EQ(check.run(), "");
  EXPECT_THAT(check.kernels[0].source, testing::HasSubstr("false, 1, 1, WindowRows<2, i32>>"));
  EXPECT_THAT(check.kernels[4].source, testing::HasSubstr("false, 4, 4, WindowRows<2, i32>>"));
  EXPECT_THAT(check.kernels[5].source, testing::HasSubstr("false, 8, 8, WindowRows<2, i32>>"));
}

TEST(CudaConv, TilesSplitsAndTypes) {
  GemmCheck check;
  const char* tiles[] = {"16x32x128 warps=1x1x4 stages=4", "64x64x64 warps=2x2x1 stages=3",
                         "128x64x64 warps=2x2x1 stages=3", "16x64x32 warps=1x2x1 stages=2"};
  int number = 0;
  for (const char* tile : tiles)
    for (const int splits : {1, 2, 4}) {
      ConvCase conv{
          fmt::format("t{}", number++), 2, {6, 7}, 40, 72, {3, 3}, {}, {}, {1, 1}, {1, 1}};
      conv.type = number % 2 == 0 ? DType::kFloat16 : DType::kBFloat16;
      add(check, conv, scheduled(tile, splits));
    }
  EXPECT_EQ(check.run(), "");
}

TEST(CudaConv, GroupsAreABatch) {
  GemmCheck check;
  const std::string tile = scheduled("32x16x64 warps=2x1x1 stages=3", 2);
  ConvCase conv{"groups", 2, {6, 5}, 32, 48, {3, 3}, {}, {}, {1, 1}, {1, 1}, 2};
  conv.residual = true;
  conv.activation = "Relu";
  conv.rest = "silu";
  add(check, conv, tile);
  add(check, {"narrow_groups", 1, {7}, 12, 12, {3}, {}, {}, {1}, {1}, 3}, tile);
  EXPECT_EQ(check.run(), "");
}

TEST(CudaConv, WhatFollowsRunsOverTheSums) {
  GemmCheck check;
  ConvCase conv{"residual", 1, {9, 7}, 16, 32, {3, 3}, {}, {}, {1, 1}, {1, 1}};
  conv.residual = true;
  conv.activation = "Relu";
  add(check, conv, scheduled("32x32x64 warps=2x2x1 stages=3", 1));
  conv.name = "silu";
  conv.rest = "silu";
  add(check, conv, scheduled("32x32x64 warps=2x2x1 stages=3", 2));
  conv.name = "norm";
  conv.rest = "norm";
  add(check, conv, scheduled("16x32x64 warps=1x1x4 stages=3", 1));
  conv.name = "norm_across";
  add(check, conv, scheduled("16x16x64 warps=1x1x4 stages=3", 1, 2));
  conv.name = "no_bias";
  conv.rest = "";
  conv.bias = false;
  check.programmatic_launch = true;
  add(check, conv, scheduled("32x32x64 warps=2x2x1 stages=3", 1));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaConv, WindowsByTheCopyEngine) {
  GemmCheck check;
  check.by_warpgroups = true;
  const std::string one = "tma 64x64x64 warpgroups=1 stages=3 split_k=1 cluster_n=1",
                    parts = "tma 64x64x64 warpgroups=1 stages=2 split_k=4 cluster_n=1",
                    turns =
                        "pingpong 64x64x64 consumers=2 warpgroups=1 stages=3 blocks=2 "
                        "passes=spread split_k=1 cluster_n=1";
  const std::vector<std::int64_t> same1 = {1}, same2 = {1, 1}, same3 = {1, 1, 1};
  add(check, {"line", 2, {47}, 64, 40, {3}, {}, {}, same1, same1}, one);
  add(check, {"plane", 2, {7, 9}, 128, 72, {3, 3}, {}, {}, same2, same2}, one);
  add(check, {"box", 1, {4, 5, 4}, 64, 64, {3, 2, 3}, {}, {}, same3, {0, 1, 1}}, one);
  add(check, {"strided", 3, {11, 8}, 64, 64, {3, 2}, {2, 3}, {}, {1, 0}, {0, 2}}, parts);
  add(check, {"strided_one", 2, {9, 9}, 64, 64, {1, 1}, {2, 2}}, one);
  add(check, {"dilated", 1, {12, 10}, 64, 72, {3, 2}, {1, 2}, {2, 3}, {2, 4}, {1, 0}}, turns);
  ConvCase conv{"residual", 2, {9, 10}, 64, 64, {3, 3}, {}, {}, same2, same2};
  conv.type = DType::kBFloat16;
  conv.residual = true;
  conv.activation = "Relu";
  add(check, conv, turns);
  EXPECT_EQ(check.run(), "");
  EXPECT_THAT(check.kernels[1].source, testing::HasSubstr("false, 2, 1, 2>>"));
  ASSERT_EQ(check.kernels[1].step.variants[0]->maps.size(), 2U);
  EXPECT_THAT(check.kernels[1].step.variants[0]->maps[0]->lower, testing::ElementsAre(-1, -1));
}

TEST(CudaConv, WindowsByTheCopyEngineOfAnySize) {
  const ir::Ranges ranges{{"n", {1, 8, nullptr}}, {"h", {1, 64, nullptr}}};
  GemmCheck check(ranges);
  check.by_warpgroups = true;
  const ConvCase conv{
      "plane", ir::Dim::symbol("n"), {ir::Dim::symbol("h"), 9}, 64, 72, {3, 3}, {}, {}, {1, 1},
      {1, 1}};
  check.add(conv.name, conv_region(conv, ranges),
            "tma 64x64x64 warpgroups=1 stages=3 split_k=1 cluster_n=1",
            {{{"n", 1}, {"h", 1}}, {{"n", 3}, {"h", 7}}});
  EXPECT_EQ(check.run(), "");
}

TEST(CudaConv, WindowsThatTheCopyEngineDoesNotKnow) {
  const auto refused = [](const ConvCase& conv) {
    GemmCheck check;
    check.by_warpgroups = true;
    try {
      check.add(conv.name, conv_region(conv), "");
      return std::string("taken");
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  };
  const auto no_schedule = testing::HasSubstr("no schedule takes the product");
  EXPECT_EQ(refused({"plane", 2, {9, 9}, 64, 64, {3, 3}}), "taken");
  EXPECT_EQ(refused({"filled_up", 2, {9, 9}, 96, 64, {3, 3}}), "taken");
  EXPECT_THAT(refused({"channels", 2, {9, 9}, 72, 64, {3, 3}}), no_schedule);
  EXPECT_THAT(refused({"groups", 2, {9, 9}, 128, 64, {3, 3}, {}, {}, {}, {}, 2}), no_schedule);
  EXPECT_THAT(refused({"far", 1, {400, 9}, 64, 64, {3, 3}, {}, {150, 1}}), no_schedule);
  const ir::Dim height = ir::Dim::symbol("h");
  EXPECT_THAT(refused({"unknown", 1, {height, 9}, 64, 64, {3, 3}, {2, 1}, {}, {1, 1}, {1, 1}}),
              no_schedule);
}

TEST(CudaConv, ChosenSchedulesTakeSymbolicSizes) {
  const ir::Ranges ranges = {{"n", {1, 64, nullptr}}, {"h", {1, 4096, nullptr}}};
  GemmCheck check(ranges);
  ConvCase conv{
      "sizes", ir::Dim::symbol("n"), {ir::Dim::symbol("h"), 6}, 16, 24, {3, 3}, {2, 1}, {}, {1, 1},
      {1, 1}};
  check.add(conv.name, conv_region(conv, ranges), "", {{{"n", 1}, {"h", 1}}, {{"n", 3}, {"h", 9}}});
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(check.kernels[0].step.variants.back()->conditions.empty());
}

TEST(CudaConv, TilesOfEightAndSixteenWarps) {
  GemmCheck check;
  const char* tiles[] = {"64x64x64 warps=2x4x1 stages=4",  "64x128x64 warps=2x4x1 stages=3",
                         "128x64x64 warps=4x2x1 stages=3", "128x128x32 warps=4x2x1 stages=4",
                         "256x64x64 warps=4x2x1 stages=3", "64x32x64 warps=2x2x2 stages=4",
                         "32x64x64 warps=1x2x4 stages=4"};
  int number = 0;
  for (const char* tile : tiles)
    for (const std::int64_t channels : {16, 4, 3})
      add(check,
          {fmt::format("w{}", number++), 2, {9, 11}, channels, 72, {3, 3}, {}, {}, {1, 1}, {1, 1}},
          scheduled(tile, 1));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaConv, LoopsOfEveryTypeAndGrouping) {
  GemmCheck check;
  const std::vector<std::int64_t> one = {1, 1};
  ConvCase conv{"f32", 2, {5, 6}, 12, 10, {3, 3}, {}, {}, one, one};
  conv.residual = true;
  conv.activation = "Relu";
  conv.rest = "silu";
  for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32}) {
    conv.type = type;
    conv.name = "plane_" + std::string(to_string(type));
    if (type == DType::kInt32) conv.rest = conv.activation = "";
    check.add_loops(conv.name, conv_region(conv));
  }
  ConvCase grouped{"grouped", 1, {7, 6}, 12, 6, {3, 2}, {2, 1}, {1, 2}, {2, 0}, {0, 1}, 3};
  grouped.type = DType::kFloat32;
  check.add_loops(grouped.name, conv_region(grouped));
  ConvCase depthwise{"depthwise", 1, {9}, 16, 16, {5}, {}, {}, {2}, {2}, 16};
  check.add_loops(depthwise.name, conv_region(depthwise));
  grouped.name = "channels_second";
  grouped.channels_last = false;
  grouped.bias = true;
  check.add_loops(grouped.name, conv_region(grouped));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaConv, FewTilesShareTheirSumsInClusters) {
  GemmCheck check;
  const std::vector<std::int64_t> one = {1, 1};
  add(check, {"deep", 1, {7, 7}, 512, 512, {3, 3}, {}, {}, one, one}, "");
  add(check, {"middle", 1, {28, 28}, 128, 128, {3, 3}, {}, {}, one, one}, "");
  add(check, {"large", 8, {56, 56}, 64, 64, {3, 3}, {}, {}, one, one}, "");
  for (const std::size_t kernel : {0u, 1u}) {
    const auto& variants = check.kernels[kernel].step.variants;
    ASSERT_EQ(variants.size(), 2u);
    EXPECT_GT(variants[0]->cluster, 1u);
    EXPECT_EQ(variants[1]->cluster, 1u);
    EXPECT_TRUE(variants[1]->conditions.empty());
  }
  ASSERT_EQ(check.kernels[2].step.variants.size(), 1u);
  EXPECT_EQ(check.kernels[2].step.variants[0]->cluster, 1u);
}

TEST(CudaConv, CompilesForEveryArchitecture) {
  GemmCheck check;
  const std::vector<std::int64_t> one = {1, 1};
  add(check, {"layer", 1, {56, 56}, 64, 64, {3, 3}, {}, {}, one, one}, "");
  add(check, {"stem", 1, {224, 224}, 3, 64, {7, 7}, {2, 2}, {}, {3, 3}, {3, 3}}, "");
  add(check, {"strided", 8, {28, 28}, 256, 512, {1, 1}, {2, 2}}, "");
  check.expect_code();
}

}  // namespace
}  // namespace sinter::test
#endif
