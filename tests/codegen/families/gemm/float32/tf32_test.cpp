// SPDX-License-Identifier: Apache-2.0
// float32 products and convolutions that tensor cores round to TF32: emitted with given schedules,
// run on the emulator and compared with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/families/gemm/conv_regions.h"
#include "tests/codegen/families/gemm/gemm_check.h"
#include "tests/codegen/families/gemm/gemm_graphs.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;

std::string rounded_warps(const char* tile, int splits = 1) {
  return fmt::format("warp_tile {} split_k={} cluster_n=1", tile, splits);
}
std::string rounded_tma(const char* tile, int splits = 1) {
  return fmt::format("tma {} split_k={} cluster_n=1", tile, splits);
}

GemmCheck tf32_check() {
  GemmCheck check;
  check.tf32 = true;
  return check;
}

void add_rounded(GemmCheck& check, ConvCase conv, const std::string& schedule) {
  conv.type = DType::kFloat32;
  check.add(conv.name, conv_region(conv), schedule);
}

TEST(CudaTf32, WarpsMultiplyRaggedSizesInBothOrders) {
  GemmCheck check = tf32_check();
  const char* tiles[] = {"16x32x64 warps=1x1x4 stages=4", "32x24x32 warps=2x1x2 stages=2",
                         "64x64x32 warps=2x2x1 stages=3", "64x128x16 warps=2x2x1 stages=3"};
  int number = 0;
  for (const char* tile : tiles)
    for (const int splits : {1, 2}) {
      check.add(fmt::format("kn{}", number), pointwise_graph("f32", "37", 72, 100),
                rounded_warps(tile, splits));
      check.add(fmt::format("nk{}", number++), transposed_graph("f32", "37", 72, 100),
                rounded_warps(tile, splits));
    }
  check.add("odd", pointwise_graph("f32", "19", 37, 45), rounded_warps(tiles[1]));
  check.add("odd_nk", transposed_graph("f32", "19", 37, 45), rounded_warps(tiles[1]));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaTf32, WarpsReadWindows) {
  GemmCheck check = tf32_check();
  const char* tile = "32x32x32 warps=2x2x1 stages=3";
  for (const std::int64_t channels : {3, 4, 6, 16})
    add_rounded(
        check,
        {fmt::format("c{}", channels), 2, {8, 9}, channels, 24, {3, 3}, {2, 1}, {}, {1, 1}, {1, 1}},
        rounded_warps(tile));
  ConvCase conv{"residual", 1, {9, 7}, 16, 32, {3, 3}, {}, {}, {1, 1}, {1, 1}};
  conv.residual = true;
  conv.activation = "Relu";
  add_rounded(check, conv, rounded_warps(tile, 2));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaTf32, WarpgroupsMultiplyTilesAndWindows) {
  GemmCheck check = tf32_check();
  check.by_warpgroups = true;
  check.add("one", transposed_graph("f32", "70", 72, 100),
            rounded_tma("64x64x32 warpgroups=1 stages=3"));
  check.add("split", transposed_graph("f32", "70", 40, 260),
            rounded_tma("64x32x32 warpgroups=1 stages=2", 3));
  check.add("two", transposed_graph("f32", "150", 136, 68),
            rounded_tma("128x128x32 warpgroups=2 stages=2"));
  const char* turns =
      "pingpong 64x64x32 consumers=2 warpgroups=1 stages=3 blocks=2 passes={} split_k=1 "
      "cluster_n=1";
  check.add("rolled", transposed_graph("f32", "150", 136, 68),
            fmt::format(fmt::runtime(turns), "rolled"));
  check.add("spread", transposed_graph("f32", "150", 136, 68),
            fmt::format(fmt::runtime(turns), "spread"));
  const std::vector<std::int64_t> same = {1, 1};
  add_rounded(check, {"plane", 2, {7, 9}, 64, 72, {3, 3}, {}, {}, same, same},
              rounded_tma("64x64x32 warpgroups=1 stages=3"));
  add_rounded(check, {"strided", 3, {11, 8}, 32, 64, {3, 2}, {2, 3}, {}, {1, 0}, {0, 2}},
              rounded_tma("64x64x32 warpgroups=1 stages=2", 2));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaTf32, WarpgroupsRefuseColumnsOfK) {
  GemmCheck check = tf32_check();
  check.by_warpgroups = true;
  EXPECT_THROW(check.add("kn", pointwise_graph("f32", "70", 64, 64),
                         rounded_tma("64x64x32 warpgroups=1 stages=3")),
               std::exception);
}

TEST(CudaTf32, CompilesForEveryArchitecture) {
  GemmCheck check = tf32_check();
  const std::vector<std::int64_t> one = {1, 1};
  check.add("kn", pointwise_graph("f32", "512", 384, 384), "");
  check.add("nk", transposed_graph("f32", "512", 384, 384), "");
  add_rounded(check, {"layer", 1, {56, 56}, 64, 64, {3, 3}, {}, {}, one, one}, "");
  check.expect_code();
  GemmCheck groups = tf32_check();
  groups.by_warpgroups = true;
  groups.add("nk", transposed_graph("f32", "512", 384, 384), "");
  add_rounded(groups, {"layer", 8, {56, 56}, 64, 64, {3, 3}, {}, {}, one, one}, "");
  const auto compiled = groups.compile({"sm_90"});
  for (const auto& kernel : compiled[0]) EXPECT_EQ(kernel.remarks, "");
}

}  // namespace
}  // namespace sinter::test
#endif
