// SPDX-License-Identifier: Apache-2.0
// What stays float32 under --precision fp16: layers that the user names, and values that samples
// show to be beyond float16; and caches, which do not where a plan pages them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* kTwoProducts = R"(graph @main(%x: f32[batch, 32]) ranges {batch: 1..8} {
  %w0 = const f32[32, 24] random(1)
  %w1 = const f32[24, 8] random(2)
  %large = const f32[] {30000}
  %a = MatMul(%x, %w0)  # from first
  %b = Mul(%a, %large)  # from scale
  %c = Tanh(%b)  # from tanh
  %y = MatMul(%c, %w1)  # from second
  return y = %y
})";

Context half_context() {
  Context context;
  context.precision = Precision::kFloat16;
  return context;
}

/// The type of the first result that comes from `origin`.
DType type_of(const ir::Graph& graph, const std::string& origin, const char* op) {
  for (const ir::Node& node : graph.nodes())
    if (node.op->name == op && std::ranges::count(node.origins, origin) > 0)
      return graph.type(node.outputs[0]).dtype;
  ADD_FAILURE() << "no " << op << " from " << origin;
  return DType::kBool;
}

TEST(WideValues, NoneWithoutOptions) {
  Context context = half_context();
  const ir::Graph graph = run_pass("lower_precision", ir::parse_graph(kTwoProducts), context);
  EXPECT_EQ(type_of(graph, "first", "MatMul"), DType::kFloat16);
  EXPECT_EQ(type_of(graph, "tanh", "Tanh"), DType::kFloat16);
}

TEST(WideValues, NamedNodesStay) {
  Context context = half_context();
  context.weights.keep = {"first"};
  const ir::Graph graph = run_pass("lower_precision", ir::parse_graph(kTwoProducts), context);
  EXPECT_EQ(type_of(graph, "first", "MatMul"), DType::kFloat32);
  EXPECT_EQ(type_of(graph, "scale", "Mul"), DType::kFloat32);
  EXPECT_EQ(type_of(graph, "second", "MatMul"), DType::kFloat16);
  EXPECT_THAT(context.precision_notes, Contains(HasSubstr("--keep first")));
}

TEST(WideValues, SamplesShowWhatIsBeyond) {
  Context context = half_context();
  const ir::Graph before = ir::parse_graph(kTwoProducts);
  context.weights.calibration = random_calibration(before, 2);
  const ir::Graph graph = run_pass("lower_precision", before, context);
  // What makes it and what reads it are float32, the rest is not.
  EXPECT_EQ(type_of(graph, "first", "MatMul"), DType::kFloat16);
  EXPECT_EQ(type_of(graph, "scale", "Mul"), DType::kFloat32);
  EXPECT_EQ(type_of(graph, "tanh", "Tanh"), DType::kFloat32);
  EXPECT_EQ(type_of(graph, "second", "MatMul"), DType::kFloat16);
  EXPECT_THAT(context.precision_notes, Contains(HasSubstr("65,504")));
}

TEST(WideValues, BFloat16HoldsThem) {
  Context context = half_context();
  context.precision = Precision::kBFloat16;
  const ir::Graph before = ir::parse_graph(kTwoProducts);
  context.weights.calibration = random_calibration(before, 2);
  const ir::Graph graph = run_pass("lower_precision", before, context);
  EXPECT_EQ(type_of(graph, "tanh", "Tanh"), DType::kBFloat16);
}

TEST(WideValues, SpectraStayAndWhatReadsThemDoesNot) {
  Context context = half_context();
  const ir::Graph graph =
      run_pass("lower_precision", ir::parse_graph(R"(graph @main(%x: f32[8, 32]) {
    %w0 = const f32[32, 24] random(1)
    %w1 = const f32[24, 8] random(2)
    %a = MatMul(%x, %w0)  # from log_mel
    %b = Tanh(%a)  # from log_mel
    %y = MatMul(%b, %w1)  # from second
    return y = %y
  })"),
               context);
  EXPECT_EQ(type_of(graph, "log_mel", "MatMul"), DType::kFloat32);
  EXPECT_EQ(type_of(graph, "log_mel", "Tanh"), DType::kFloat32);
  EXPECT_EQ(type_of(graph, "second", "MatMul"), DType::kFloat16);
}

TEST(WideValues, PagedCachesThatGrowAreNarrow) {
  const ir::Graph before = ir::parse_graph(R"(graph @main(%ids: i64[1, s], %k: f32[1, 2, past, 4])
      ranges {past: 0..64, s: 1..64} {
    %table = const f32[32, 8] random(1)
    %x = Gather(%table, %ids) {axis = 0}
    %heads = Reshape(%x) {shape = [1, s, 2, 4]}
    %rows = Transpose(%heads) {perm = [0, 2, 1, 3]}
    %k1 = Concat(%k, %rows) {axis = 2}
    %t = ReduceSum(%k1) {axes = [2]}
    return y = %t, k1 = %k1
  })");
  Context own = half_context();
  ir::Graph graph = run_pass("lower_precision", before, own);
  EXPECT_EQ(graph.type(graph.inputs()[1]).dtype, DType::kFloat32);
  Context paged = half_context();
  paged.paging = PagingOptions{};
  graph = run_pass("lower_precision", before, paged);
  EXPECT_EQ(graph.type(graph.inputs()[1]).dtype, DType::kFloat16);
  EXPECT_EQ(graph.type(graph.outputs()[1]).dtype, DType::kFloat16);
}

}  // namespace
}  // namespace sinter::fusion::test
