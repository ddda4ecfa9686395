// SPDX-License-Identifier: Apache-2.0
// What is small and asks for much: passes end soon, and what they leave out changes no result.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "sinter/error.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

using testing::HasSubstr;

Context on_cpu() {
  Context context;
  context.target = codegen::cpu_target().traits();
  return context;
}

ir::Graph fused(const ir::Graph& graph) {
  Context context = on_cpu();
  return run_pipeline(graph, context).graph;
}

TEST(Bounds, FoldedConstantsHaveABudget) {
  const ir::Graph graph = ir::parse_graph(R"(
graph @main(%x: f32[1, 4]) {
  %c = const f32[4, 1] {1, 2, 3, 4}
  %w = Expand(%c) {shape = [4, 512]} : f32[4, 512]  # from the_weights
  %y = MatMul(%x, %w) : f32[1, 512]
  return y = %y
})");
  Context context = on_cpu();
  run_pass("fold_constants", graph, context);
  context.max_memory = 4096;
  try {
    run_pass("fold_constants", graph, context);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_THAT(error.what(), HasSubstr("the_weights"));
    EXPECT_THAT(error.what(), HasSubstr("f32[4, 512]"));
    EXPECT_THAT(error.what(), HasSubstr("--max-compile-memory"));
  }
}

/// A value and views of it, joined again and again: where the index becomes too long the kernel
/// ends, and regions do not wait for each other.
TEST(Bounds, ViewsOfWhatAKernelComputesAreInItOrItIsNot) {
  std::string text = "graph @main(%v0: f32[n, 12, 35]) {\n";
  for (int i = 0; i < 12; ++i) {
    text += fmt::format(
        "  %r{0} = Reshape(%v{0}) {{shape = [n, 4, 3, 35]}} : f32[n, 4, 3, 35]\n"
        "  %t{0} = Transpose(%r{0}) {{perm = [0, 2, 1, 3]}} : f32[n, 3, 4, 35]\n"
        "  %j{0} = Reshape(%t{0}) {{shape = [n, 12, 35]}} : f32[n, 12, 35]\n"
        "  %v{1} = Add(%j{0}, %v{0}) : f32[n, 12, 35]\n",
        i, i + 1);
  }
  const ir::Graph graph = ir::parse_graph(text + "  return y = %v12\n}");
  expect_equivalent(graph, fused(graph), 1e-5);
}

/// Halves that are exchanged and joined: each level doubles the ways to an element.
TEST(Bounds, HalvesOfHalves) {
  std::string text = "graph @main(%v0: f32[16, 4]) {\n";
  for (int i = 0; i < 24; ++i) {
    text += fmt::format(
        "  %a{0} = Slice(%v{0}) {{shape = [8, 4], starts = [0, 0], steps = [1, 1]}} : f32[8, 4]\n"
        "  %b{0} = Slice(%v{0}) {{shape = [8, 4], starts = [8, 0], steps = [1, 1]}} : f32[8, 4]\n"
        "  %c{0} = Relu(%b{0}) : f32[8, 4]\n"
        "  %d{0} = Concat(%a{0}, %c{0}) {{axis = 0}} : f32[16, 4]\n"
        "  %e{0} = Reshape(%d{0}) {{shape = [2, 8, 4]}} : f32[2, 8, 4]\n"
        "  %f{0} = Transpose(%e{0}) {{perm = [1, 0, 2]}} : f32[8, 2, 4]\n"
        "  %v{1} = Reshape(%f{0}) {{shape = [16, 4]}} : f32[16, 4]\n",
        i, i + 1);
  }
  const ir::Graph graph = ir::parse_graph(text + "  return y = %v24\n}");
  expect_equivalent(graph, fused(graph), 1e-5);
}

/// x*x, squared 200 times: each binary tree of 2^200 leaves is a spelling of it.
TEST(Bounds, ProductsOfProducts) {
  std::string text = "graph @main(%v0: f32[4]) {\n";
  for (int i = 0; i < 200; ++i)
    text += fmt::format("  %v{1} = Mul(%v{0}, %v{0}) : f32[4]\n", i, i + 1);
  Context context = on_cpu();
  run_pass("recognise", ir::parse_graph(text + "  return y = %v200\n}"), context);
  EXPECT_TRUE(context.notes.empty());
}

}  // namespace
}  // namespace sinter::fusion::test
