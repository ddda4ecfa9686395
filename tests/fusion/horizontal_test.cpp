// SPDX-License-Identifier: Apache-2.0
// How many regions go into one launch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

/// `count` regions of one level, over inputs of `size`(k) elements each.
ir::Graph regions(std::size_t count, const std::function<std::string(std::size_t)>& size,
                  const std::function<std::string(std::size_t)>& op) {
  std::string text = "graph @main(", nodes, results;
  for (std::size_t k = 0; k < count; ++k) {
    const char* comma = k > 0 ? ", " : "";
    text += fmt::format("{}%x{}: f32[{}]", comma, k, size(k));
    nodes += fmt::format(
        "  %y{0} = Fused(%x{0}) {{kind = \"pointwise\"}} : f32[{1}] body @body(%x) {{\n"
        "    %0 = {2}(%x)\n    return y = %0\n  }}\n",
        k, size(k), op(k));
    results += fmt::format("{}y{} = %y{}", comma, k, k);
  }
  return ir::parse_graph(text + ") {\n" + nodes + "  return " + results + "\n}\n");
}

/// The number of regions in each node of the result; 0 for one that stayed alone.
std::vector<std::size_t> sizes_of_groups(
    const ir::Graph& graph, const TargetTraits& target = codegen::cuda_target().traits()) {
  Context context;
  context.target = target;
  const ir::Graph fused = run_pass("fuse_horizontal", graph, context);
  expect_equivalent(graph, fused, 0);
  std::vector<std::size_t> sizes;
  for (const ir::Node& node : fused.nodes())
    sizes.push_back(node.attrs.get_string("kind") == "horizontal" ? node.body->nodes().size() : 0);
  return sizes;
}

std::string exp(std::size_t) { return "Exp"; }

TEST(Horizontal, ConstantSizesAreATableOfAnyLength) {
  const auto size = [](std::size_t k) { return std::to_string(10 + k); };
  EXPECT_EQ(sizes_of_groups(regions(1000, size, exp)), std::vector<std::size_t>{1000});
}

TEST(Horizontal, SymbolicSizesAreArguments) {
  const auto size = [](std::size_t k) { return k % 2 ? "n" : "n, 3"; };
  EXPECT_EQ(sizes_of_groups(regions(20, size, exp)), (std::vector<std::size_t>{16, 4}));
}

TEST(Horizontal, FewSymbolicSizesDoNotBreakUpATable) {
  const auto size = [](std::size_t k) { return k == 7 || k == 40 ? "n" : std::to_string(10 + k); };
  EXPECT_EQ(sizes_of_groups(regions(60, size, exp)), (std::vector<std::size_t>{58, 2}));
}

TEST(Horizontal, DifferentBodiesAreLimited) {
  const char* ops[] = {"Exp", "Neg", "Abs", "Tanh", "Relu", "Sqrt", "Floor", "Ceil", "Sin", "Cos"};
  const auto size = [](std::size_t k) { return std::to_string(10 + k); };
  EXPECT_EQ(sizes_of_groups(regions(20, size, [&](std::size_t k) { return ops[k % 10]; })),
            (std::vector<std::size_t>{16, 4}));
}

TEST(Horizontal, RowsThatFillTheTargetAreJoined) {
  // 20 long rows: too few for a block of their own each, unless multiprocessors are fewer.
  const ir::Graph graph = ir::parse_graph(R"(graph @main(%a: f32[20, 30000], %b: f32[20, 30000]) {
  %0 = Fused(%a) {kind = "reduction"} : f32[20] body @body(%x) {
    %0 = ReduceMax(%x) {axes = [1], keepdims = 0}
    return y = %0
  }
  %1 = Fused(%b) {kind = "reduction"} : f32[20] body @body(%x) {
    %0 = ReduceMax(%x) {axes = [1], keepdims = 0}
    return y = %0
  }
  return a = %0, b = %1
}
)");
  TargetTraits target = codegen::cuda_target().traits();
  EXPECT_EQ(sizes_of_groups(graph, target), (std::vector<std::size_t>{0, 0}));
  target.multiprocessors = 16;
  EXPECT_EQ(sizes_of_groups(graph, target), std::vector<std::size_t>{2});
}

}  // namespace
}  // namespace sinter::fusion::test
