// SPDX-License-Identifier: Apache-2.0
// Which ways the step of a convolution gets on the CUDA target.
#ifdef SINTER_WITH_CUDA

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "compiled_ways.h"
#include "conv_regions.h"
#include "ir/graph.h"

namespace sinter::test {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

/// A graph with nothing but the region, as kind "gemm" or as "conv" itself.
ir::Graph graph_of(const ConvCase& conv, const std::string& kind, const ir::Ranges& ranges = {}) {
  const auto region = std::make_shared<const ir::Graph>(kind == "conv" ? conv_graph(conv, ranges)
                                                                       : conv_region(conv, ranges));
  ir::GraphBuilder builder("main");
  for (const auto& [symbol, range] : ranges) builder.range(symbol, range);
  std::vector<ir::ValueId> inputs;
  for (const ir::ValueId input : region->inputs())
    inputs.push_back(builder.input(region->value(input).name, region->type(input)));
  builder.output("y", builder.add_multi("Fused", inputs, {{"kind", kind}}, region)[0]);
  return builder.finish();
}

using plan::fb::Work;

TEST(CompileConv, OurProductIsLastWhereTensorCoresTakeIt) {
  ConvCase conv{"conv", 1, {8, 8}, 16, 24, {3, 3}, {}, {}, {1, 1}, {1, 1}};
  conv.residual = true;
  conv.activation = "Relu";
  const auto ways = ways_of(graph_of(conv, "gemm"), "sm_80");
  EXPECT_THAT(names_of(ways), ElementsAre("cudnn", "gemm"));
  EXPECT_THAT(ways[0].parts, ElementsAre(Work::ConvStep));
  EXPECT_THAT(ways[1].parts, ElementsAre(Work::KernelStep));
  EXPECT_FALSE(ways[1].limited);
  conv.rest = "silu";
  const auto with_epilogue = ways_of(graph_of(conv, "gemm"), "sm_80");
  EXPECT_THAT(names_of(with_epilogue), ElementsAre("cudnn", "gemm"));
  EXPECT_THAT(with_epilogue[0].parts, ElementsAre(Work::ConvStep, Work::KernelStep));
}

TEST(CompileConv, NormsAreOneKernelForFewRowsOnly) {
  ConvCase conv{"conv", 1, {8, 8}, 16, 24, {3, 3}, {}, {}, {1, 1}, {1, 1}};
  conv.rest = "norm";
  EXPECT_THAT(names_of(ways_of(graph_of(conv, "gemm"), "sm_80")),
              ElementsAre("gemm", "cudnn", "gemm, then its epilogue"));
  conv.in = {64, 64};
  EXPECT_THAT(names_of(ways_of(graph_of(conv, "gemm"), "sm_80")),
              ElementsAre("cudnn", StartsWith("gemm, then its epilogue; no GEMM kernel")));
}

TEST(CompileConv, LargeOnesTryTheLibraryFirst) {
  const ir::Ranges ranges = {{"n", {1, 1024, nullptr}}};
  const ConvCase conv{"conv", ir::Dim::symbol("n"), {56, 56}, 64, 64, {3, 3}, {}, {}, {1, 1},
                      {1, 1}};
  const auto ways = ways_of(graph_of(conv, "gemm", ranges), "sm_80");
  EXPECT_THAT(names_of(ways), ElementsAre("gemm", "cudnn", "gemm"));
  EXPECT_TRUE(ways[0].limited);
  EXPECT_FALSE(ways[2].limited);
}

TEST(CompileConv, Float32IsExactOnCudaCores) {
  ConvCase conv{"conv", 8, {56, 56}, 64, 64, {3, 3}, {}, {}, {1, 1}, {1, 1}};
  conv.type = DType::kFloat32;
  const auto ways = ways_of(graph_of(conv, "conv"), "sm_90");
  EXPECT_THAT(names_of(ways), ElementsAre("cudnn", "gemm"));
  EXPECT_FALSE(ways[1].limited);  // also for many operations
}

TEST(CompileConv, LoopsTakeTheRest) {
  ConvCase conv{"conv", 1, {6, 6}, 8, 12, {3, 3}, {}, {}, {1, 1}, {1, 1}};
  conv.type = DType::kFloat64;
  auto ways = ways_of(graph_of(conv, "conv"), "sm_80");
  EXPECT_THAT(names_of(ways),
              ElementsAre("cudnn", "loops; no GEMM kernel: GEMM kernels do not multiply f64"));
  conv.rest = "norm";
  ways = ways_of(graph_of(conv, "gemm"), "sm_80");
  EXPECT_THAT(names_of(ways), ElementsAre("cudnn", StartsWith("loops, then the epilogue;")));
  EXPECT_THAT(ways[1].parts, ElementsAre(Work::KernelStep, Work::KernelStep));
  conv.rest = "";
  conv.type = DType::kInt32;
  EXPECT_THAT(names_of(ways_of(graph_of(conv, "conv"), "sm_80")),
              ElementsAre(StartsWith("loops; no library: cuDNN does not multiply i32")));
}

TEST(CompileConv, SchedulesCanBeForced) {
  const ConvCase conv{"conv", 1, {8, 8}, 16, 24, {3, 3}, {}, {}, {1, 1}, {1, 1}};
  const std::string schedule = "warp_tile 16x32x64 warps=1x1x4 stages=3 split_k=1 cluster_n=1";
  EXPECT_THAT(names_of(ways_of(graph_of(conv, "gemm"), "sm_80", schedule)), ElementsAre("gemm"));
  EXPECT_THAT(names_of(ways_of(graph_of(conv, "gemm"), "sm_80", "library")),
              ElementsAre("cudnn", StartsWith("loops")));
}

}  // namespace
}  // namespace sinter::test
#endif
