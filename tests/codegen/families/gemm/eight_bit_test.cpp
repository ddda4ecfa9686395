// SPDX-License-Identifier: Apache-2.0
// Products of operands of 8 bits: emitted with given schedules, run on the emulator and compared
// with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eight_bit_graphs.h"
#include "gemm_check.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;

std::string warps(const char* tile, int splits = 1) {
  return fmt::format("warp_tile {} split_k={} cluster_n=1", tile, splits);
}
std::string tma(const char* tile, int splits = 1) {
  return fmt::format("tma {} split_k={} cluster_n=1", tile, splits);
}
std::string turns(const char* tile, const char* passes, int blocks = 2, int promoted = 0) {
  return fmt::format("pingpong {} blocks={} passes={}{} split_k=1 cluster_n=1", tile, blocks,
                     passes, promoted > 0 ? fmt::format(" promote={}", promoted) : "");
}

TEST(CudaEightBit, WarpsMultiplyIntegersOfEitherSign) {
  GemmCheck check;
  const char* tile = "32x32x128 warps=2x2x1 stages=3";
  check.add("signed", sums_graph("i8", "i8", "37", 72, 208), warps(tile));
  check.add("unsigned", sums_graph("u8", "i8", "37", 72, 208), warps(tile, 2));
  check.add("weights", sums_graph("i8", "u8", "37", 72, 208), warps(tile));
  check.add("both", sums_graph("u8", "u8", "37", 72, 208), warps(tile));
  check.add("warps_of_k", sums_graph("i8", "i8", "19", 40, 300),
            warps("16x32x256 warps=1x1x4 stages=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEightBit, WarpsTakeAnyAlignmentAndOrder) {
  GemmCheck check;
  const char* tile = "32x32x64 warps=2x2x1 stages=3";
  check.add("eight", sums_graph("i8", "i8", "20", 24, 72), warps(tile));
  check.add("four", sums_graph("i8", "i8", "20", 36, 68), warps(tile));
  check.add("two", sums_graph("i8", "i8", "20", 34, 66), warps(tile));
  check.add("odd", sums_graph("i8", "i8", "19", 37, 45), warps(tile));
  check.add("kn", sums_graph("i8", "i8", "33", 48, 96, false), warps(tile, 2));
  check.add("kn_four", sums_graph("u8", "i8", "33", 36, 90, false), warps(tile));
  check.add("kn_odd", sums_graph("i8", "i8", "19", 37, 45, false), warps(tile));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEightBit, WarpgroupsMultiplyTilesOnRaggedSizes) {
  GemmCheck check;
  check.add("one", sums_graph("i8", "i8", "70", 72, 400), tma("64x64x128 warpgroups=1 stages=3"));
  check.add("split", sums_graph("u8", "i8", "70", 40, 1040),
            tma("64x32x128 warpgroups=1 stages=2", 3));
  check.add("two_groups", sums_graph("i8", "u8", "150", 136, 272),
            tma("128x128x128 warpgroups=2 stages=2"));
  check.add("wide", sums_graph("u8", "u8", "130", 192, 144),
            tma("128x192x128 warpgroups=2 stages=2"));
  check.add("ninety_six", sums_graph("i8", "i8", "66", 96, 272),
            tma("64x96x128 warpgroups=1 stages=2"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEightBit, EpiloguesScaleAndQuantize) {
  GemmCheck check;
  check.add("warps", quantized_output_graph("i8", "i8", "37", 72, 208),
            warps("32x32x128 warps=2x2x1 stages=3"));
  check.add("tma", quantized_output_graph("u8", "i8", "70", 72, 208),
            tma("64x64x128 warpgroups=1 stages=3"));
  for (const char* passes : {"spread", "rolled"}) {
    check.add(fmt::format("turns_{}", passes), quantized_output_graph("i8", "i8", "300", 264, 400),
              turns("128x128x128 consumers=2 warpgroups=1 stages=3", passes, 3));
    check.add(fmt::format("together_{}", passes),
              quantized_output_graph("i8", "u8", "200", 192, 272),
              turns("128x192x128 consumers=1 warpgroups=2 stages=2", passes));
  }
  check.add("two_of_two", quantized_output_graph("i8", "i8", "300", 264, 400),
            turns("128x128x128 consumers=2 warpgroups=2 stages=3", "spread", 3));
  check.add("two_of_two_rolled", quantized_output_graph("u8", "i8", "300", 264, 272),
            turns("128x128x128 consumers=2 warpgroups=2 stages=3", "rolled"));
  check.add("sums", sums_graph("i8", "i8", "150", 136, 272),
            turns("64x192x128 consumers=2 warpgroups=1 stages=2", "spread"));
  check.add("floats", scaled_graph("i8", "i8", "150", 136, 272, "f32"),
            turns("128x128x128 consumers=2 warpgroups=1 stages=2", "spread"));
  check.add("halves", scaled_graph("i8", "i8", "150", 136, 272, "f16"),
            turns("128x128x128 consumers=2 warpgroups=1 stages=2", "spread"));
  EXPECT_EQ(check.run(), "");
  // Eight bytes of a row at once.
  EXPECT_THAT(check.kernels[2].source, HasSubstr("Pack<i8>::of"));
}

constexpr const char* kE4M3 = "f8e4m3fn";
constexpr const char* kE5M2 = "f8e5m2";

TEST(CudaEightBit, FloatsAreSummedUpInFloat32) {
  GemmCheck check;
  const char* tile = "32x32x128 warps=2x2x1 stages=3";
  check.add("e4m3", sums_graph(kE4M3, kE4M3, "37", 72, 208), warps(tile));
  check.add("e5m2", sums_graph(kE5M2, kE5M2, "37", 72, 208), warps(tile, 2));
  check.add("mixed", scaled_graph(kE5M2, kE4M3, "37", 72, 208, kE4M3), warps(tile));
  check.add("kn_odd", scaled_graph(kE4M3, kE5M2, "19", 37, 45, "f16"),
            warps("32x32x64 warps=2x2x1 stages=3"));
  check.add("tma", scaled_graph(kE4M3, kE4M3, "70", 72, 400, "bf16"),
            tma("64x64x128 warpgroups=1 stages=3"));
  check.add("turns", scaled_graph(kE4M3, kE5M2, "300", 264, 400, kE4M3),
            turns("128x128x128 consumers=2 warpgroups=1 stages=3", "spread", 3));
  EXPECT_EQ(check.run(), "");
}

// The products of some stages are added to sums of float32.
TEST(CudaEightBit, SumsOfFloatsArePromoted) {
  GemmCheck check;
  check.add("tma", sums_graph(kE4M3, kE4M3, "70", 72, 656),
            tma("64x64x128 warpgroups=1 stages=3 promote=128", 2));
  check.add("two_groups", scaled_graph(kE5M2, kE4M3, "150", 192, 400, "f16"),
            tma("128x192x128 warpgroups=2 stages=2 promote=256"));
  for (const char* passes : {"spread", "rolled"}) {
    check.add(fmt::format("together_{}", passes),
              scaled_graph(kE4M3, kE4M3, "300", 264, 656, kE4M3),
              turns("128x192x128 consumers=1 warpgroups=2 stages=3", passes, 2, 256));
    check.add(fmt::format("turns_{}", passes), scaled_graph(kE4M3, kE5M2, "200", 192, 400, "f16"),
              turns("64x192x128 consumers=2 warpgroups=1 stages=3", passes, 2, 128));
  }
  EXPECT_EQ(check.run(), "");
}

// A warpgroup's second half of the columns follows when the first is promoted.
TEST(CudaEightBit, SeveralProductsArePromotedInTurns) {
  GemmCheck check;
  check.add("tma", scaled_graph(kE4M3, kE4M3, "70", 256, 656, "f16"),
            tma("64x256x128 warpgroups=1 stages=2 promote=128"));
  check.add("rows", scaled_graph(kE4M3, kE4M3, "150", 72, 656, "f16"),
            tma("128x64x128 warpgroups=1 stages=4 promote=256", 2));
  check.add("turns", scaled_graph(kE4M3, kE4M3, "300", 264, 656, kE4M3),
            turns("128x256x128 consumers=1 warpgroups=2 stages=4", "spread", 2, 256));
  EXPECT_EQ(check.run(), "");
}

// Each block copies its share of the columns to both; of an odd number of rows of tiles the last
// block has none.
TEST(CudaEightBit, BlocksShareCopies) {
  const auto shared = [](const char* tile, const char* passes, int blocks, int promoted = 0) {
    return fmt::format("pingpong {} blocks={} passes={}{} multicast=2 split_k=1 cluster_n=1", tile,
                       blocks, passes, promoted > 0 ? fmt::format(" promote={}", promoted) : "");
  };
  GemmCheck check;
  for (const char* passes : {"spread", "rolled"}) {
    check.add(fmt::format("integers_{}", passes),
              quantized_output_graph("i8", "i8", "330", 264, 400),
              shared("128x128x128 consumers=2 warpgroups=1 stages=3", passes, 4));
    check.add(fmt::format("promoted_{}", passes),
              scaled_graph(kE4M3, kE4M3, "300", 264, 656, kE4M3),
              shared("128x192x128 consumers=1 warpgroups=2 stages=3", passes, 2, 256));
  }
  check.add("halves", scaled_graph(kE4M3, kE4M3, "520", 264, 656, kE4M3),
            shared("128x256x128 consumers=1 warpgroups=2 stages=4", "spread", 2, 256));
  check.add("more_blocks_than_tiles", sums_graph("u8", "i8", "70", 40, 144),
            shared("64x64x128 consumers=2 warpgroups=1 stages=2", "spread", 132));
  EXPECT_EQ(check.run(), "");
  EXPECT_EQ(check.kernels[0].step.variants[0]->cluster, 2u);
  EXPECT_THAT(message_for(sums_graph("i8", "i8", "70", 64, 256),
                          shared("64x64x128 consumers=2 warpgroups=1 stages=2", "spread", 3)),
              HasSubstr("does not take kernel 'kernel_p'"));
}

// Each promotes the sums of half of k.
TEST(CudaEightBit, TwoBlocksShareK) {
  const auto split = [](const char* tile, const char* passes, int blocks, int promoted = 0) {
    return fmt::format("pingpong {} blocks={} passes={}{} split_k=2 cluster_n=1", tile, blocks,
                       passes, promoted > 0 ? fmt::format(" promote={}", promoted) : "");
  };
  GemmCheck check;
  for (const char* passes : {"spread", "rolled"}) {
    check.add(fmt::format("integers_{}", passes),
              quantized_output_graph("i8", "i8", "330", 264, 400),
              split("128x128x128 consumers=1 warpgroups=2 stages=3", passes, 4));
    check.add(fmt::format("promoted_{}", passes),
              scaled_graph(kE4M3, kE4M3, "300", 264, 656, kE4M3),
              split("128x192x128 consumers=1 warpgroups=2 stages=3", passes, 2, 256));
  }
  check.add("rows", scaled_graph(kE4M3, kE4M3, "520", 136, 656, "f16"),
            split("256x64x128 consumers=1 warpgroups=2 stages=4", "spread", 2, 256));
  check.add("scaled", block_graph(kE4M3, kE4M3, "300", 264, 640, "bf16"),
            split("128x128x128 consumers=1 warpgroups=2 stages=3", "spread", 2, 128));
  check.add("halves", gated_sums_graph("i8", "150", 136, 272),
            split("128x128x128 consumers=1 warpgroups=2 stages=2", "spread", 2));
  EXPECT_EQ(check.run(), "");
}

// What is promoted is scaled, by scales of its rows and of 128 columns.
TEST(CudaEightBit, BlocksOfKHaveScales) {
  GemmCheck check;
  check.add("tma", block_graph(kE4M3, kE4M3, "70", 72, 640, "f16"),
            tma("64x64x128 warpgroups=1 stages=3 promote=128", 2));
  check.add("two_groups", block_graph(kE4M3, kE5M2, "150", 264, 384, "f32"),
            tma("128x128x128 warpgroups=2 stages=2 promote=128"));
  check.add("halves", block_graph(kE4M3, kE4M3, "300", 392, 640, "bf16"),
            turns("128x256x128 consumers=1 warpgroups=2 stages=3", "rolled", 2, 128));
  check.add("shared", block_graph(kE5M2, kE4M3, "300", 392, 640, "f16"),
            "pingpong 128x128x128 consumers=1 warpgroups=2 stages=4 blocks=4 passes=spread "
            "promote=128 multicast=2 split_k=1 cluster_n=1");
  check.add("warps", block_graph(kE4M3, kE4M3, "37", 200, 640, "f32"),
            warps("32x32x128 warps=2x2x1 stages=3", 2));
  check.add("warps_of_k", block_graph(kE5M2, kE4M3, "19", 40, 640, "f16"),
            warps("16x32x256 warps=1x1x4 stages=3"));
  check.add("by_warps", block_graph(kE4M3, kE4M3, "70", 200, 256, "f16"), "");
  check.by_warpgroups = true;
  check.add("chosen", block_graph(kE4M3, kE4M3, "70", 200, 256, "f16"), "");
  EXPECT_EQ(check.run(), "");
  EXPECT_THAT(check.kernels.back().step.variants[0]->schedule, HasSubstr("promote=128"));
  const auto refused = HasSubstr("does not take kernel 'kernel_p'");
  const std::string graph = block_graph(kE4M3, kE4M3, "70", 192, 256, "f16");
  EXPECT_THAT(message_for(graph, tma("64x64x128 warpgroups=1 stages=2 promote=256")), refused);
  EXPECT_THAT(message_for(graph, tma("64x192x128 warpgroups=1 stages=2 promote=128")), refused);
  EXPECT_THAT(message_for(graph, warps("32x32x256 warps=2x2x1 stages=3")), refused);
}

TEST(CudaEightBit, LoopsScaleBlocks) {
  GemmCheck check;
  check.add_loops("loops", block_graph(kE4M3, kE5M2, "5", 136, 256, "f16"));
  EXPECT_EQ(check.run(), "");
}

// Of one row of tiles the second block would have none.
TEST(CudaEightBit, ManyRowsShareCopies) {
  for (const auto& [m, shares] : {std::pair("64", false), std::pair("4096", true)}) {
    GemmCheck check;
    check.by_warpgroups = true;
    check.add("p", scaled_graph(kE4M3, kE4M3, m, 14336, 4096, "f16"), "");
    const std::string& schedule = check.kernels[0].step.variants[0]->schedule;
    EXPECT_EQ(schedule.find("multicast=2") != std::string::npos, shares) << schedule;
  }
}

TEST(CudaEightBit, DeepProductsArePromotedWhereNobodyAsks) {
  for (const auto& [k, promotes] : {std::pair(1024, false), std::pair(2048, true)}) {
    GemmCheck check;
    check.by_warpgroups = true;
    check.add("p", scaled_graph(kE4M3, kE4M3, "4096", 3072, k, "f16"), "");
    const std::string& schedule = check.kernels[0].step.variants[0]->schedule;
    EXPECT_EQ(schedule.find("promote=") != std::string::npos, promotes) << schedule;
  }
}

TEST(CudaEightBit, TilesOf160And224Columns) {
  GemmCheck check;
  check.add("160", quantized_output_graph("i8", "i8", "150", 328, 400),
            turns("128x160x128 consumers=2 warpgroups=1 stages=3", "spread"));
  check.add("promoted_160", scaled_graph(kE4M3, kE4M3, "300", 328, 656, kE4M3),
            turns("128x160x128 consumers=1 warpgroups=2 stages=4", "spread", 2, 256));
  check.add("one", quantized_output_graph("i8", "i8", "150", 264, 400),
            turns("128x224x128 consumers=1 warpgroups=2 stages=3", "spread"));
  check.add("promoted", scaled_graph(kE4M3, kE4M3, "300", 264, 656, kE4M3),
            turns("128x224x128 consumers=1 warpgroups=2 stages=4", "spread", 2, 256));
  check.add("rolled", scaled_graph(kE4M3, kE4M3, "150", 224, 400, "f16"),
            turns("128x224x128 consumers=1 warpgroups=2 stages=3", "rolled", 2, 128));
  check.add("halves", gated_sums_graph("i8", "150", 136, 272),
            turns("128x224x128 consumers=1 warpgroups=2 stages=2", "spread"));
  check.add("shared", scaled_graph(kE4M3, kE4M3, "520", 264, 656, kE4M3),
            "pingpong 128x224x128 consumers=1 warpgroups=2 stages=4 blocks=2 passes=spread "
            "promote=256 multicast=2 split_k=1 cluster_n=1");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEightBit, ThreeWarpgroupsShareTiles) {
  GemmCheck check;
  for (const char* passes : {"spread", "rolled"})
    check.add(passes, scaled_graph(kE4M3, kE4M3, "400", 200, 656, kE4M3),
              turns("192x96x128 consumers=1 warpgroups=3 stages=4", passes, 2, 256));
  check.add("shared", scaled_graph(kE4M3, kE4M3, "400", 200, 656, "f16"),
            "pingpong 192x96x128 consumers=1 warpgroups=3 stages=5 blocks=2 passes=spread "
            "promote=512 multicast=2 split_k=1 cluster_n=1");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEightBit, HalvesOfTheColumnsMeet) {
  GemmCheck check;
  check.add("scaled", scaled_gate_graph(kE4M3, "150", 136, 400),
            turns("128x160x128 consumers=1 warpgroups=2 stages=4", "spread", 2, 256));
  check.add("scaled_224", scaled_gate_graph(kE4M3, "150", 136, 400),
            turns("128x224x128 consumers=1 warpgroups=2 stages=4", "spread", 2, 256));
  check.add("scaled_tma", scaled_gate_graph(kE4M3, "70", 72, 272),
            tma("64x64x128 warpgroups=1 stages=3"));
  check.add("tma", gated_sums_graph("i8", "70", 72, 272), tma("64x64x128 warpgroups=1 stages=3"));
  check.add("turns", gated_sums_graph("u8", "150", 136, 272),
            turns("128x128x128 consumers=2 warpgroups=1 stages=2", "spread"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEightBit, ChosenSchedulesTakeSymbolicRows) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  const std::string graph = quantized_output_graph("i8", "i8", "m", 96, 272);
  check.add("warps", graph, "", {{{"m", 1}}, {{"m", 65}}});
  check.by_warpgroups = true;
  check.add("groups", graph, "", {{{"m", 1}}, {{"m", 130}}});
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels)
    EXPECT_TRUE(kernel.step.variants.back()->conditions.empty());
}

TEST(CudaEightBit, BatchesAreDimensionsOfTheMaps) {
  GemmCheck check;
  check.by_warpgroups = true;
  check.add("heads",
            "graph @g(%q: i8[2, 3, 70, 64], %k: i8[2, 3, 80, 64]) {\n"
            "  %0 = Transpose(%k) {perm = [0, 1, 3, 2]}\n"
            "  %1 = MatMul(%q, %0)\n"
            "  %2 = Cast(%1) {to = f32}\n"
            "  return y = %2\n}\n",
            "");
  EXPECT_EQ(check.run(), "");
}

// Where neither operand stays in the L2, blocks walk groups of rows of tiles, the last of fewer.
TEST(CudaEightBit, LargeProductsAreWalkedInGroups) {
  codegen::DeviceModel device = codegen::reference_device();
  device.l2_bytes = 4096;
  GemmCheck check;
  check.device = &device;
  check.add("one_tile", sums_graph("i8", "i8", "830", 136, 64),
            tma("64x64x128 warpgroups=1 stages=2"));
  check.add("turns", scaled_graph("i8", "i8", "830", 136, 64, "f16"),
            turns("64x64x128 consumers=2 warpgroups=1 stages=2", "spread", 5));
  EXPECT_EQ(check.run(), "");
  for (const auto& kernel : check.kernels)
    EXPECT_THAT(kernel.source, HasSubstr("in_group % group_rows"));
}

TEST(CudaEightBit, ConvolutionsReadWindows) {
  GemmCheck check;
  const auto add = [&](const char* name, const std::string& region, const std::string& schedule) {
    check.add(name, ir::parse_graph(region), schedule);
  };
  const char* tile = "32x32x64 warps=2x2x1 stages=3";
  add("warps", eight_bit_conv("i8", "i8", 2, 9, 16, 40, 3, 1, 1), warps(tile));
  add("narrow", eight_bit_conv("u8", "i8", 2, 9, 4, 40, 3, 2, 1), warps(tile, 2));
  add("single", eight_bit_conv("i8", "i8", 2, 9, 3, 40, 3, 1, 1), warps(tile));
  add("tma", eight_bit_conv("i8", "i8", 2, 9, 128, 64, 3, 1, 1),
      tma("64x64x128 warpgroups=1 stages=3"));
  // Channels that are filled up to 256, with blocks that share k.
  add("filled_up", eight_bit_conv("u8", "i8", 2, 9, 176, 64, 3, 2, 1),
      tma("64x64x128 warpgroups=1 stages=3", 2));
  add("turns", eight_bit_conv("f8e4m3fn", "f8e4m3fn", 2, 9, 112, 64, 3, 1, 1),
      turns("64x64x128 consumers=2 warpgroups=1 stages=3", "spread"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaEightBit, CompilesWhereTheInstructionsAre) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  const std::string graph = quantized_output_graph("i8", "i8", "m", 384, 768);
  check.add("warps", graph, "");
  check.add("mixed", quantized_output_graph("u8", "i8", "m", 384, 768), "");
  check.expect_code();
  GemmCheck groups({{"m", {1, 4096, nullptr}}});
  groups.add("tma", graph, tma("128x192x128 warpgroups=2 stages=4"));
  groups.add("turns", graph, turns("128x192x128 consumers=2 warpgroups=1 stages=4", "spread", 132));
  for (const auto& compiled : groups.compile()) {
    EXPECT_LT(compiled[0].code.size(), compiled[1].code.size());
    EXPECT_LT(compiled[2].code.size(), compiled[1].code.size());
  }
  GemmCheck floats({{"m", {1, 4096, nullptr}}});
  floats.add("warps", scaled_graph(kE4M3, kE5M2, "m", 384, 768, kE4M3), "");
  floats.add("blocks", block_graph(kE4M3, kE4M3, "m", 384, 768, "f16"), "");
  for (const auto& compiled : floats.compile({"sm_89", "sm_90", "sm_100", "sm_120"}))
    for (const auto& code : compiled) EXPECT_GT(code.code.size(), 1000u);
  groups = GemmCheck({{"m", {1, 4096, nullptr}}});
  groups.add("promoted", scaled_graph(kE4M3, kE4M3, "m", 384, 768, kE4M3),
             turns("128x192x128 consumers=1 warpgroups=2 stages=4", "spread", 132, 512));
  groups.add("shared", scaled_graph(kE4M3, kE4M3, "m", 384, 768, kE4M3),
             "pingpong 128x256x128 consumers=1 warpgroups=2 stages=4 blocks=132 passes=spread "
             "promote=256 multicast=2 split_k=1 cluster_n=1");
  groups.add("unpromoted", scaled_graph(kE4M3, kE4M3, "m", 512, 768, kE4M3),
             turns("128x256x128 consumers=1 warpgroups=2 stages=4", "spread", 132));
  groups.add("four", scaled_graph(kE4M3, kE4M3, "m", 384, 768, kE4M3),
             turns("128x128x128 consumers=2 warpgroups=2 stages=7", "spread", 132));
  groups.add("blocks", block_graph(kE4M3, kE4M3, "m", 384, 768, "f16"),
             turns("128x256x128 consumers=1 warpgroups=2 stages=4", "spread", 132, 128));
  for (const auto& compiled : groups.compile({"sm_89", "sm_90", "sm_120"})) {
    EXPECT_LT(compiled[0].code.size(), compiled[1].code.size());
    EXPECT_LT(compiled[2].code.size(), compiled[1].code.size());
  }
}

TEST(CudaEightBit, FormsThatDoNotFitAreRefused) {
  const auto refused = HasSubstr("does not take kernel 'kernel_p'");
  const std::string plain = sums_graph("i8", "i8", "70", 64, 256);
  EXPECT_EQ(message_for(plain, tma("64x64x128 warpgroups=1 stages=2")), "accepted");
  EXPECT_THAT(message_for(plain, tma("64x64x64 warpgroups=1 stages=2")), refused);
  // Sums of integers are exact as they are.
  EXPECT_THAT(message_for(plain, tma("64x64x128 warpgroups=1 stages=2 promote=128")), refused);
  EXPECT_THAT(message_for(plain, tma("64x64x128 warpgroups=1 stages=2 promote=64")),
              HasSubstr("promoted every 128 of k, or some times that, or not at all"));
  // k is not contiguous, or its rows are no multiple of 16 bytes.
  EXPECT_THAT(message_for(sums_graph("i8", "i8", "70", 64, 256, false),
                          tma("64x64x128 warpgroups=1 stages=2")),
              refused);
  EXPECT_THAT(
      message_for(sums_graph("i8", "i8", "70", 64, 264), tma("64x64x128 warpgroups=1 stages=2")),
      refused);
}

}  // namespace
}  // namespace sinter::test
#endif
