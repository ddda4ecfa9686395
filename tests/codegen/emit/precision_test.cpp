// SPDX-License-Identifier: Apache-2.0
// What lower precision keeps wide stays so in kernels: large logits, squares, masks.
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/region_check.h"
#ifdef SINTER_WITH_CUDA
#include "tests/codegen/emulation/cuda_check.h"
#include "tests/codegen/families/gemm/gemm_check.h"
#endif

namespace sinter::test {
namespace {

/// Lowered to float16 for a GPU.
ir::Graph lowered_graph(const char* text) {
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  context.precision = fusion::Precision::kFloat16;
  return fusion::run_pipeline(ir::parse_graph(text), context).graph;
}

/// The bodies of its regions that loops compute.
std::vector<const ir::Graph*> loop_bodies(const ir::Graph& graph) {
  std::vector<const ir::Graph*> bodies;
  for (const ir::Node& node : graph.nodes())
    if (node.body && (node.attrs.get_string("kind") == "reduction" ||
                      node.attrs.get_string("kind") == "pointwise"))
      bodies.push_back(node.body.get());
  return bodies;
}

/// Activations of thousands, whose squares and whose masked sums float16 cannot hold.
constexpr const char* kLarge[] = {
    R"(graph @main(%x: f32[6, 96], %g: f32[96]) {
  %k = const f32[] {4000}
  %a = Mul(%x, %k)
  %s = Square(%a)
  %m = ReduceMean(%s) {axes = [1], keepdims = 1}
  %eps = const f32[] {1e-6}
  %e = Add(%m, %eps)
  %r = Rsqrt(%e)
  %n = Mul(%a, %r)
  %y = Mul(%n, %g)
  return y = %y
})",
    R"(graph @main(%x: f32[6, 96], %g: f32[96], %b: f32[96]) {
  %k = const f32[] {4000}
  %a = Mul(%x, %k)
  %y = LayerNorm(%a, %g, %b) {axis = 1}
  return y = %y
})",
    R"(graph @main(%x: f32[6, 96], %seen: bool[96]) {
  %k = const f32[] {30000}
  %a = Mul(%x, %k)
  %low = const f32[] {-1e9}
  %m = Where(%seen, %a, %low)
  %y = Softmax(%m) {axis = 1}
  return y = %y
})"};

TEST(LoweredPrecision, LargeActivationsAreRightOnTheCpu) {
  for (const char* text : kLarge) {
    const ir::Graph graph = lowered_graph(text);
    ASSERT_FALSE(loop_bodies(graph).empty());
    for (const ir::Graph* body : loop_bodies(graph)) EXPECT_EQ(check_region(*body, {}), "");
  }
}

#ifdef SINTER_WITH_CUDA

TEST(LoweredPrecision, LargeActivationsAreRightInKernels) {
  CudaCheck check;
  std::vector<ir::Graph> graphs;
  for (const char* text : kLarge) graphs.push_back(lowered_graph(text));
  for (std::size_t i = 0; i < graphs.size(); ++i)
    for (const ir::Graph* body : loop_bodies(graphs[i]))
      check.add("large" + std::to_string(i), lowered_program(check.exprs, *body));
  EXPECT_EQ(check.run(), "");
}

TEST(LoweredPrecision, CastsToSixteenBitsRoundOnceInKernels) {
  CudaCheck check;
  for (const char* types : {"f64 f16", "f64 bf16", "i64 bf16", "f32 f16", "i32 f16"}) {
    const std::string from(types, 3), to(types + 4);
    const ir::Graph body = ir::parse_graph(
        "graph @g(%x: " + from + "[100]) {\n  %y = Cast(%x) {to = " + to + "}\n  return y = %y\n}");
    check.add(from + "_" + to, lowered_program(check.exprs, body));
  }
  EXPECT_EQ(check.run(), "");
  for (std::size_t i = 0; i < 5; ++i) {
    const bool to_odd = check.kernels()[i].source.find("= convert_to_odd(") != std::string::npos;
    EXPECT_EQ(to_odd, i < 3) << check.kernels()[i].source;
  }
}

/// Products of a hundred thousand: none is rounded to float16, neither alone nor with what follows.
TEST(LoweredPrecision, ProductsBeyondFloat16AreStoredWide) {
  const std::string text = R"(graph @main(%x: f16[20, 64], %w: f16[64, 48]) {
  %z = MatMul(%x, %w)
  %k = const f16[] {20000}
  %s = Mul(%z, %k)
  %c = Cast(%s) {to = f32}
  %o = const f32[] {1000000}
  %y = Add(%c, %o)
  return y = %y
})";
  GemmCheck check;
  check.add("wide", text, "");
  EXPECT_EQ(check.run(), "");
}

#endif

}  // namespace
}  // namespace sinter::test
