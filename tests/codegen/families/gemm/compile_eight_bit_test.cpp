// SPDX-License-Identifier: Apache-2.0
// Which ways the step of a product of 8 bits gets on the CUDA target.
#ifdef SINTER_WITH_CUDA

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "compiled_ways.h"
#include "eight_bit_graphs.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

using plan::fb::Work;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Of what the passes make of a graph.
std::vector<Way> ways_of_text(const std::string& text, const std::string& architecture = "sm_90",
                              bool fuse = true) {
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  context.fuse = fuse;
  return ways_of(fusion::run_pipeline(ir::parse_graph(text), context).graph, architecture);
}

// MatMulInteger with constant weights [k, n], cast and scaled: one kernel does all.
TEST(CompileEightBit, ProductsOfIntegersAreOneKernel) {
  const auto ways = ways_of_text(
      "graph @main(%x: i8[seq, 768]) {\n  %w = const i8[768, 384] random(1)\n"
      "  %p = MatMul(%x, %w)\n  %f = Cast(%p) {to = f32}\n  %k = const f32[] {0.0001}\n"
      "  %y = Mul(%f, %k)\n  return y = %y\n}");
  EXPECT_THAT(names_of(ways), ElementsAre("gemm", "warp-specialized gemm", "library", "gemm"));
  EXPECT_THAT(ways[0].parts, ElementsAre(Work::KernelStep));
  EXPECT_TRUE(ways[0].limited);
  EXPECT_THAT(ways[1].parts, ElementsAre(Work::KernelStep));
  EXPECT_THAT(ways[2].parts, ElementsAre(Work::MatmulStep, Work::KernelStep));
  EXPECT_TRUE(ways[2].limited);
  EXPECT_FALSE(ways[3].limited);
}

TEST(CompileEightBit, TheLibraryTakesSomeTypesOnly) {
  EXPECT_THAT(names_of(ways_of_text(scaled_graph("u8", "i8", "64", 128, 256, "f16"))),
              ElementsAre("warp-specialized gemm",
                          HasSubstr("no library: cuBLASLt does not multiply u8 by i8")));
  EXPECT_THAT(names_of(ways_of_text(scaled_graph("f8e5m2", "f8e5m2", "64", 128, 256, "f16"))),
              ElementsAre("warp-specialized gemm",
                          HasSubstr("cuBLASLt does not multiply f8e5m2 by f8e5m2")));
  const auto mixed = ways_of_text(scaled_graph("f8e5m2", "f8e4m3fn", "64", 128, 256, "f16"));
  EXPECT_THAT(names_of(mixed), ElementsAre("warp-specialized gemm", "library", "gemm"));
}

// What the library stores as it is wanted it does alone.
TEST(CompileEightBit, AFactorAndHalvesAreTheLibrarysOwn) {
  const auto ways = ways_of_text(
      "graph @main(%x: f8e4m3fn[64, 256]) {\n  %w = const f8e4m3fn[256, 128] random(1)\n"
      "  %p = MatMul(%x, %w)\n  %k = const f32[] {0.5}\n  %s = Mul(%p, %k)\n"
      "  %y = Cast(%s) {to = f16}\n  return y = %y\n}");
  ASSERT_THAT(names_of(ways), ElementsAre("warp-specialized gemm", "library", "gemm"));
  EXPECT_THAT(ways[1].parts, ElementsAre(Work::MatmulStep));
}

TEST(CompileEightBit, LoopsTakeSizesThatAreNotKnown) {
  const auto ways = ways_of_text(
      "graph @main(%x: i8[m, k], %w: i8[n, k]) {\n  %t = Transpose(%w) {perm = [1, 0]}\n"
      "  %p = MatMul(%x, %t)\n  return p = %p\n}");
  EXPECT_THAT(ways.back().name, StartsWith("loops"));
  EXPECT_FALSE(ways.back().limited);
}

// Not the library, and no loops.
TEST(CompileEightBit, BlocksAreScaledByOurOwnKernels) {
  const std::string graph = block_graph("f8e4m3fn", "f8e4m3fn", "64", 384, 256, "f16");
  EXPECT_THAT(names_of(ways_of_text(graph)),
              ElementsAre("warp-specialized gemm",
                          HasSubstr("gemm; no library: cuBLASLt is not asked for")));
  for (const char* architecture : {"sm_89", "sm_100", "sm_120"})
    EXPECT_THAT(names_of(ways_of_text(graph, architecture)), ElementsAre(StartsWith("gemm")));
}

TEST(CompileEightBit, UnfusedItIsAKernelOfItsOwn) {
  const auto ways = ways_of_text(sums_graph("i8", "u8", "64", 128, 256, false), "sm_80", false);
  EXPECT_THAT(names_of(ways), ElementsAre(HasSubstr("gemm")));
}

TEST(CompileEightBit, FloatsAreRefusedWhereTensorCoresHaveNone) {
  try {
    ways_of_text(scaled_graph("f8e4m3fn", "f8e4m3fn", "64", 128, 256, "f16"), "sm_80");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(),
                HasSubstr("multiplies f8e4m3fn: sm_80 has no such products, which sm_89 and later "
                          "have; compile for those, or cast the operands to f16"));
  }
}

}  // namespace
}  // namespace sinter::test
#endif
