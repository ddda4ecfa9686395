// SPDX-License-Identifier: Apache-2.0
// Exact float32 products and convolutions on CUDA cores: emitted with given schedules, run on the
// emulator and compared with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/families/gemm/gemm_schedule.h"
#include "tests/codegen/families/gemm/conv_regions.h"
#include "tests/codegen/families/gemm/gemm_check.h"
#include "tests/codegen/families/gemm/gemm_graphs.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string simt(const char* tile, int splits = 1) {
  return fmt::format("simt {} split_k={} cluster_n=1", tile, splits);
}

// Every tile that the compiler chooses from.
const char* const kSimtTiles[] = {
    "128x128x16 warps=2x2x1 stages=4", "256x128x16 warps=4x2x1 stages=4",
    "128x128x16 warps=4x2x1 stages=4", "256x64x16 warps=4x1x1 stages=4",
    "128x64x16 warps=4x1x1 stages=4",  "64x128x16 warps=2x2x1 stages=4",
    "64x64x32 warps=2x1x2 stages=3",   "64x64x32 warps=2x2x1 stages=3",
    "64x64x32 warps=2x1x4 stages=3",   "128x32x32 warps=4x1x1 stages=3",
    "64x32x32 warps=2x1x2 stages=4",   "32x128x32 warps=1x2x2 stages=3",
    "32x64x32 warps=1x1x4 stages=4",   "32x32x32 warps=1x1x4 stages=4",
    "16x64x32 warps=1x1x4 stages=4",   "16x32x64 warps=1x1x4 stages=4"};
const char* const kNarrowSimtTiles[] = {"128x16x32 warps=4x1x1 stages=4",
                                        "64x16x32 warps=2x1x2 stages=4"};

ConvCase exact_case(ConvCase conv) {
  conv.type = DType::kFloat32;
  return conv;
}
void add_exact(GemmCheck& check, const ConvCase& conv, const std::string& schedule) {
  check.add(conv.name, conv_region(exact_case(conv)), schedule);
}

TEST(CudaSimt, EveryTileTakesRaggedSizes) {
  GemmCheck check;
  int number = 0;
  for (const char* tile : kSimtTiles) {
    check.add(fmt::format("kn{}", number), pointwise_graph("f32", "67", 72, 52), simt(tile));
    check.add(fmt::format("nk{}", number++), transposed_graph("f32", "67", 72, 52), simt(tile));
  }
  for (const char* tile : kNarrowSimtTiles)
    check.add(fmt::format("nk{}", number++), transposed_graph("f32", "67", 24, 52), simt(tile));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSimt, SplitsOfKAddInAFixedOrder) {
  GemmCheck check;
  int number = 0;
  for (const char* tile : {"64x64x32 warps=2x1x2 stages=3", "32x32x32 warps=1x1x4 stages=4"})
    for (const int splits : {2, 3, 8}) {
      check.add(fmt::format("kn{}", number), pointwise_graph("f32", "37", 40, 300),
                simt(tile, splits));
      check.add(fmt::format("nk{}", number++), transposed_graph("f32", "37", 40, 300),
                simt(tile, splits));
    }
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSimt, AnyAlignmentOfRows) {
  GemmCheck check;
  const std::string tile = simt("32x32x32 warps=1x1x4 stages=4", 2);
  check.add("two", pointwise_graph("f32", "20", 38, 70), tile);
  check.add("odd", pointwise_graph("f32", "19", 37, 45), tile);
  check.add("odd_nk", transposed_graph("f32", "19", 37, 45), tile);
  check.add("row", pointwise_graph("f32", "1", 64, 128), tile);
  check.add("short", pointwise_graph("f32", "3", 16, 8), tile);
  EXPECT_EQ(check.run(), "");
  EXPECT_THAT(check.kernels[1].source, HasSubstr("true, 1, 1>>"));
}

TEST(CudaSimt, ChosenSchedulesTakeSymbolicRowsAndBatches) {
  GemmCheck check({{"m", {1, 4096, nullptr}}, {"b", {1, 8, nullptr}}});
  check.add("rows", pointwise_graph("f32", "m", 96, 64), "", {{{"m", 1}}, {{"m", 130}}});
  check.add("heads",
            "graph @g(%x: f32[b, m, 96], %w: f32[b, 4, 24, 40]) {\n"
            "  %0 = Reshape(%x) {shape = [b, m, 4, 24]} : f32[b, m, 4, 24]\n"
            "  %1 = Transpose(%0) {perm = [0, 2, 1, 3]} : f32[b, 4, m, 24]\n"
            "  %2 = MatMul(%1, %w) : f32[b, 4, m, 40]\n"
            "  %3 = Sigmoid(%2) : f32[b, 4, m, 40]\n"
            "  return y = %3\n}\n",
            "", {{{"b", 2}, {"m", 19}}});
  EXPECT_EQ(check.run(), "");
  // The last takes every size on every GPU.
  EXPECT_EQ(check.kernels[0].step.variants.back()->cluster, 1u);
  EXPECT_TRUE(check.kernels[0].step.variants.back()->conditions.empty());
}

TEST(CudaSimt, EarlyKernelsWaitBeforeTheyReadOrWrite) {
  GemmCheck check;
  check.programmatic_launch = true;
  check.add("early", pointwise_graph("f32", "33", 40, 96),
            simt("32x32x32 warps=1x1x4 stages=4", 2));
  check.add("early_odd", pointwise_graph("f32", "33", 39, 95),
            simt("32x32x32 warps=1x1x4 stages=4"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSimt, WindowsOfOneToThreeDimensions) {
  GemmCheck check;
  const std::string tile = simt("32x32x32 warps=1x1x4 stages=4");
  const std::vector<std::int64_t> same1 = {1}, same2 = {1, 1}, same3 = {1, 1, 1};
  add_exact(check, {"line", 2, {37}, 16, 24, {3}, {}, {}, same1, same1}, tile);
  add_exact(check, {"plane", 2, {7, 9}, 16, 40, {3, 3}, {}, {}, same2, same2}, tile);
  add_exact(check, {"box", 1, {4, 5, 3}, 8, 16, {3, 2, 3}, {}, {}, same3, {0, 1, 1}}, tile);
  add_exact(check, {"strides", 2, {11, 8}, 8, 16, {3, 3}, {2, 3}, {}, {1, 0}, {0, 2}}, tile);
  add_exact(check, {"dilations", 1, {12, 10}, 16, 24, {3, 2}, {1, 2}, {2, 3}, {2, 4}, {1, 0}},
            tile);
  add_exact(check, {"groups", 2, {6, 5}, 32, 48, {3, 3}, {}, {}, same2, same2, 2}, tile);
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSimt, EveryTileTakesWindowsAndChannelsOfEveryAlignment) {
  GemmCheck check;
  int number = 0;
  const std::int64_t channels[] = {1, 2, 3, 4, 6, 8};
  std::vector<const char*> tiles(std::begin(kSimtTiles), std::end(kSimtTiles));
  tiles.insert(tiles.end(), std::begin(kNarrowSimtTiles), std::end(kNarrowSimtTiles));
  for (const char* tile : tiles) {
    // Two images of 8 x 9: a window's element at a time needs a thread for each row.
    const std::int64_t some = channels[number % 6];
    const bool is_taken = std::string_view(tile).starts_with("256x64") ? some % 2 == 0 : true;
    add_exact(check,
              {fmt::format("c{}_{}", some, number++),
               2,
               {8, 9},
               is_taken ? some : 4,
               24,
               {3, 3},
               {2, 1},
               {},
               {1, 1},
               {1, 1}},
              simt(tile));
  }
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSimt, WhatFollowsRunsOverTheSums) {
  GemmCheck check;
  ConvCase conv{"residual", 1, {9, 7}, 16, 32, {3, 3}, {}, {}, {1, 1}, {1, 1}};
  conv.residual = true;
  conv.activation = "Relu";
  add_exact(check, conv, simt("64x32x32 warps=2x1x2 stages=4"));
  conv.name = "silu";
  conv.rest = "silu";
  add_exact(check, conv, simt("32x32x32 warps=1x1x4 stages=4", 2));
  conv.name = "wide";
  conv.outputs = 136;
  add_exact(check, conv, simt("64x128x16 warps=2x2x1 stages=4"));
  conv.name = "odd";
  conv.outputs = 37;
  add_exact(check, conv, simt("64x64x32 warps=2x2x1 stages=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaSimt, FewTilesShareTheirSumsInClusters) {
  GemmCheck check;
  const std::vector<std::int64_t> one = {1, 1};
  add_exact(check, {"deep", 1, {7, 7}, 512, 512, {3, 3}, {}, {}, one, one}, "");
  add_exact(check, {"large", 64, {56, 56}, 64, 64, {3, 3}, {}, {}, one, one}, "");
  const auto& variants = check.kernels[0].step.variants;
  ASSERT_EQ(variants.size(), 2u);
  EXPECT_GT(variants[0]->cluster, 1u);
  EXPECT_EQ(variants[1]->cluster, 1u);
  ASSERT_EQ(check.kernels[1].step.variants.size(), 1u);
  EXPECT_EQ(check.kernels[1].step.variants[0]->cluster, 1u);
}

TEST(CudaSimt, CompilesForEveryArchitecture) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  const std::vector<std::int64_t> one = {1, 1};
  check.add("chosen", pointwise_graph("f32", "m", 384, 384), "");
  check.add("wide", transposed_graph("f32", "m", 256, 256),
            simt("256x128x16 warps=4x2x1 stages=2"));
  add_exact(check, {"layer", 1, {56, 56}, 64, 64, {3, 3}, {}, {}, one, one}, "");
  add_exact(check, {"stem", 8, {224, 224}, 3, 64, {7, 7}, {2, 2}, {}, {3, 3}, {3, 3}}, "");
  check.expect_code();
}

TEST(CudaSimt, WhatDoesNotFitIsRefused) {
  const auto message = [](const std::string& graph, const std::string& schedule) {
    return message_for(graph, schedule);
  };
  const std::string graph = pointwise_graph("f32", "16", 32, 64);
  EXPECT_THAT(message(graph, "simt 64x32"), HasSubstr("is no schedule of a product"));
  const auto does_not_fit = HasSubstr("does not take kernel 'kernel_p'");
  EXPECT_THAT(message(graph, simt("66x32x32 warps=1x1x4 stages=4")), does_not_fit);
  EXPECT_THAT(message(graph, simt("32x16x32 warps=1x1x4 stages=4")), does_not_fit);  // b[k][n]
  EXPECT_THAT(message(graph, simt("256x256x16 warps=2x2x1 stages=2")), does_not_fit);
  // Tensor cores would round, and CUDA cores multiply float32 only.
  EXPECT_THAT(message(graph, "warp_tile 16x32x32 warps=1x1x1 stages=2 split_k=1 cluster_n=1"),
              does_not_fit);
  EXPECT_THAT(message(pointwise_graph("f16", "16", 32, 64), simt("32x32x32 warps=1x1x4 stages=4")),
              does_not_fit);
}

}  // namespace
}  // namespace sinter::test
#endif
