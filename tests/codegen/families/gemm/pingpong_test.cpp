// SPDX-License-Identifier: Apache-2.0
// Ping-pong products by warpgroups: emitted with given schedules, run on the emulator and compared
// with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gemm_check.h"
#include "gemm_graphs.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;

std::string turns(const char* size, int teams, int groups, int stages, int blocks,
                  const char* passes = "rolled") {
  return fmt::format(
      "pingpong {}x64 consumers={} warpgroups={} stages={} blocks={} passes={} split_k=1 "
      "cluster_n=1",
      size, teams, groups, stages, blocks, passes);
}

/// Inputs and results of 8 and 16 bits.
std::string narrow_graph(const char* m, int n, int k) {
  return fmt::format(
      "graph @g(%x: f16[{0}, {2}], %w: f16[{2}, {1}], %c: bool[{1}], %d: bool[{0}, {1}], %r: "
      "f16[{0}, {1}]) {{\n"
      "  %0 = MatMul(%x, %w) : f16[{0}, {1}]\n"
      "  %1 = And(%c, %d) : bool[{0}, {1}]\n"
      "  %2 = Where(%1, %0, %r) : f16[{0}, {1}]\n"
      "  %3 = Greater(%0, %r) : bool[{0}, {1}]\n"
      "  return y = %2, q = %3\n}}\n",
      m, n, k);
}

// Blocks with several tiles each, of which some have one more than others, and with none.
TEST(CudaPingpong, ConsumersTakeTilesInTurns) {
  GemmCheck check;
  check.add("several", pointwise_graph("f16", "450", 264, 200), turns("128x128", 2, 1, 3, 5));
  check.add("wide", pointwise_graph("bf16", "150", 392, 136), turns("128x192", 2, 1, 2, 1));
  check.add("one_stage_ahead", pointwise_graph("f16", "300", 136, 64), turns("64x64", 2, 1, 4, 2));
  check.add("nk", transposed_graph("f16", "260", 200, 136), turns("128x96", 2, 1, 4, 2));
  check.add("together", pointwise_graph("f16", "300", 264, 136), turns("128x128", 1, 2, 3, 2));
  check.add("many_blocks", pointwise_graph("f16", "70", 72, 72), turns("64x64", 2, 1, 4, 132));
  EXPECT_EQ(check.run(), "");
  EXPECT_EQ(check.kernels[0].step.variants[0]->block[0], 384u);
}

// Each computes with the columns whose sums it has, and exchanges what it loads and stores.
TEST(CudaPingpong, ConsumersComputeWhereSumsAre) {
  GemmCheck check;
  check.add("several", pointwise_graph("f16", "450", 264, 200),
            turns("128x128", 2, 1, 3, 5, "spread"));
  check.add("wide", pointwise_graph("bf16", "150", 384, 136),
            turns("128x192", 2, 1, 2, 1, "spread"));
  check.add("tall", pointwise_graph("f16", "200", 136, 136),
            turns("192x128", 2, 1, 2, 2, "spread"));
  check.add("nk", transposed_graph("f16", "260", 200, 136), turns("128x96", 2, 1, 4, 2, "spread"));
  check.add("together", pointwise_graph("f16", "300", 256, 136),
            turns("128x128", 1, 2, 3, 2, "spread"));
  check.add("narrow", narrow_graph("70", 128, 72), turns("64x64", 2, 1, 4, 2, "spread"));
  check.add("narrow_rest", narrow_graph("70", 72, 72), turns("64x64", 2, 1, 4, 2, "spread"));
  EXPECT_EQ(check.run(), "");
  EXPECT_THAT(check.kernels[1].source, HasSubstr("= Tile::load_exchanged(x0 + i1);"));
  EXPECT_THAT(check.kernels[1].source, HasSubstr("r11[pass][k] = load<8>(p2 + i1);"));
}

// A tile has as many columns of either half; a thread has both of an element.
TEST(CudaPingpong, HalvesOfTheColumnsMeet) {
  GemmCheck check;
  check.add("kn", gated_graph("f16", "300", 192, 200), turns("128x128", 2, 1, 3, 5, "spread"));
  check.add("nk", gated_graph("bf16", "150", 136, 136, true),
            turns("192x128", 2, 1, 2, 2, "spread"));
  check.add("thirds", gated_graph("f16", "100", 96, 72, true),
            turns("64x192", 2, 1, 3, 2, "spread"));
  check.add("rest", gated_graph("f16", "70", 72, 72), turns("64x128", 2, 1, 4, 2, "spread"));
  EXPECT_EQ(check.run(), "");
  EXPECT_THAT(check.kernels[0].source, HasSubstr("operands.part_b = 192;"));
  EXPECT_THAT(message_for(gated_graph("f16", "300", 192, 200), turns("128x128", 2, 1, 3, 5)),
              HasSubstr("does not take kernel 'kernel_p'"));
}

// Widths that are no multiples of 64, where k is contiguous in both operands: of 112 columns the
// lanes of a row have three vectors each and two a fourth.
TEST(CudaPingpong, TilesOf112And160Columns) {
  GemmCheck check;
  for (const char* passes : {"rolled", "spread"}) {
    check.add(fmt::format("one_{}", passes), transposed_graph("f16", "260", 224, 136),
              turns("128x112", 2, 1, 3, 2, passes));
    check.add(fmt::format("rest_{}", passes), transposed_graph("bf16", "150", 200, 136),
              turns("64x112", 2, 1, 4, 2, passes));
    check.add(fmt::format("two_{}", passes), transposed_graph("f16", "260", 232, 136),
              turns("128x224", 1, 2, 2, 2, passes));
  }
  check.add("160", transposed_graph("f16", "260", 328, 136),
            turns("128x160", 2, 1, 2, 2, "spread"));
  check.add("narrow", gated_graph("f16", "150", 112, 136, true),
            turns("128x224", 1, 2, 3, 2, "spread"));
  check.add("narrow_rest", gated_graph("bf16", "300", 200, 136, true),
            turns("128x224", 1, 2, 3, 5, "spread"));
  EXPECT_EQ(check.run(), "");
  EXPECT_THAT(message_for(pointwise_graph("f16", "70", 224, 64), turns("64x112", 2, 1, 2, 2)),
              HasSubstr("does not take kernel 'kernel_p'"));
}

// Each copies its part of the columns to both.
TEST(CudaPingpong, BlocksShareCopies) {
  const auto shared = [](const char* tile, const char* passes, int blocks) {
    return fmt::format("pingpong {} blocks={} passes={} multicast=2 split_k=1 cluster_n=1", tile,
                       blocks, passes);
  };
  GemmCheck check;
  check.add("kn", pointwise_graph("f16", "330", 264, 200),
            shared("128x128x64 consumers=2 warpgroups=1 stages=3", "rolled", 4));
  check.add("nk", gated_graph("bf16", "330", 200, 136, true),
            shared("128x224x64 consumers=1 warpgroups=2 stages=3", "spread", 2));
  EXPECT_EQ(check.run(), "");
  EXPECT_EQ(check.kernels[0].step.variants[0]->cluster, 2u);
}

// Each multiplies half of k and has the epilogue of half of the rows; of a short k the second has
// nothing to multiply.
TEST(CudaPingpong, TwoBlocksShareK) {
  const auto split = [](const char* tile, const char* passes, int blocks) {
    return fmt::format("pingpong {} blocks={} passes={} split_k=2 cluster_n=1", tile, blocks,
                       passes);
  };
  GemmCheck check;
  for (const char* passes : {"rolled", "spread"}) {
    check.add(fmt::format("together_{}", passes), pointwise_graph("f16", "450", 264, 456),
              split("128x128x64 consumers=1 warpgroups=2 stages=3", passes, 4));
    check.add(fmt::format("turns_{}", passes), pointwise_graph("f16", "450", 264, 200),
              split("64x128x64 consumers=2 warpgroups=1 stages=2", passes, 4));
    check.add(fmt::format("rows_{}", passes), transposed_graph("bf16", "300", 136, 136),
              split("256x64x64 consumers=1 warpgroups=2 stages=2", passes, 132));
  }
  check.add("short", pointwise_graph("f16", "70", 136, 64),
            split("64x64x64 consumers=2 warpgroups=1 stages=2", "spread", 2));
  check.add("halves", gated_graph("bf16", "330", 200, 136, true),
            split("128x224x64 consumers=1 warpgroups=2 stages=3", "spread", 2));
  EXPECT_EQ(check.run(), "");
  EXPECT_EQ(check.kernels[0].step.variants[0]->cluster, 2u);
  for (const char* tile : {"128x128x64 consumers=1 warpgroups=2 stages=3 blocks=2 passes=spread "
                           "multicast=2 split_k=2 cluster_n=1",
                           "128x128x64 consumers=1 warpgroups=2 stages=3 blocks=3 passes=spread "
                           "split_k=2 cluster_n=1",
                           "128x128x64 consumers=1 warpgroups=2 stages=3 blocks=3 passes=spread "
                           "split_k=3 cluster_n=1"})
    EXPECT_THAT(
        message_for(pointwise_graph("f16", "70", 224, 200), fmt::format("pingpong {}", tile)),
        HasSubstr("does not take kernel 'kernel_p'"));
}

// Of a cluster of four two share the copies of b, for either half of k.
TEST(CudaPingpong, BlocksShareCopiesAndK) {
  const auto both = [](const char* tile, const char* passes, int blocks) {
    return fmt::format("pingpong {} blocks={} passes={} multicast=2 split_k=2 cluster_n=1", tile,
                       blocks, passes);
  };
  GemmCheck check;
  check.add("kn", pointwise_graph("f16", "330", 264, 456),
            both("128x128x64 consumers=1 warpgroups=2 stages=3", "rolled", 8));
  check.add("nk", gated_graph("bf16", "330", 200, 136, true),
            both("64x160x64 consumers=2 warpgroups=1 stages=2", "spread", 4));
  EXPECT_EQ(check.run(), "");
  EXPECT_EQ(check.kernels[0].step.variants[0]->cluster, 4u);
}

TEST(CudaPingpong, FewRowsShareK) {
  GemmCheck check;
  check.by_warpgroups = true;
  check.add("few", transposed_graph("f16", "256", 4096, 14336), "");
  check.add("many", transposed_graph("f16", "4096", 4096, 14336), "");
  EXPECT_THAT(check.kernels[0].step.variants[0]->schedule, HasSubstr("split_k=2"));
  EXPECT_THAT(check.kernels[1].step.variants[0]->schedule, HasSubstr("split_k=1"));
}

TEST(CudaPingpong, EarlyKernelsFetchWeightsFirst) {
  GemmCheck check;
  check.programmatic_launch = true;
  check.add("early", pointwise_graph("f16", "200", 136, 264), turns("64x64", 2, 1, 3, 2));
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(check.kernels[0].step.variants[0]->programmatic_launch);
}

TEST(CudaPingpong, CodeIsForOneGpuAlone) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  check.add("turns", pointwise_graph("f16", "m", 384, 384), turns("128x192", 2, 1, 5, 132));
  check.add("spread", pointwise_graph("f16", "m", 384, 384),
            turns("128x192", 2, 1, 5, 132, "spread"));
  check.add("gated", gated_graph("f16", "m", 448, 384, true),
            turns("128x224", 1, 2, 5, 132, "spread"));
  check.add("split", pointwise_graph("f16", "m", 384, 384),
            "pingpong 128x128x64 consumers=1 warpgroups=2 stages=5 blocks=132 passes=spread "
            "split_k=2 cluster_n=1");
  for (const auto& compiled : check.compile()) {
    EXPECT_LT(compiled[0].code.size(), compiled[1].code.size());
    EXPECT_LT(compiled[2].code.size(), compiled[1].code.size());
  }
}

TEST(CudaPingpong, FormsThatDoNotFitAreRefused) {
  const auto refused = HasSubstr("does not take kernel 'kernel_p'");
  // Which columns a thread has is another matter where passes are spread.
  const std::string columns =
      "graph @g(%x: f16[70, 64], %w: f16[64, 64]) {\n"
      "  %0 = MatMul(%x, %w) : f16[70, 64]\n"
      "  %1 = Iota() {shape = [1, 64], axis = 1, dtype = f16} : f16[1, 64]\n"
      "  %2 = Add(%0, %1) : f16[70, 64]\n"
      "  return y = %2\n}\n";
  EXPECT_EQ(message_for(columns, turns("64x64", 2, 1, 2, 2)), "accepted");
  EXPECT_THAT(message_for(columns, turns("64x64", 2, 1, 2, 2, "spread")), refused);
  EXPECT_THAT(
      message_for(pointwise_graph("f16", "70", 64, 64), turns("64x64", 2, 1, 2, 2, "other")),
      HasSubstr("passes are spread or rolled, not 'other'"));
}

}  // namespace
}  // namespace sinter::test
#endif
