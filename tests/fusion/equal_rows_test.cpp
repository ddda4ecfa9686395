// SPDX-License-Identifier: Apache-2.0
// Whether norms make the rows of a product equal, however they are spelled and whatever lies
// between.
#include "fusion/scales/choice/equal_rows.h"

#include <string>

#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace sinter::fusion::test {
namespace {

/// Of the product %p [batch, seq, 8], which is x times a constant; `behind` makes %y of it.
bool are_equal_behind(const std::string& behind) {
  const ir::Graph graph =
      ir::parse_graph(R"(graph @main(%x: f32[batch, seq, 4], %r: f32[batch, seq, 8]) {
  %w = const f32[4, 8] random(1)
  %v = const f32[8, 8] random(2)
  %g = const f32[8] random(3)
  %one = const f32[] {1}
  %p = MatMul(%x, %w)
)" + behind + R"(
  return y = %y
})");
  for (const ir::Node& node : graph.nodes())
    if (node.op->name == "MatMul") return are_rows_made_equal(graph, node.outputs[0]);
  ADD_FAILURE() << "no product";
  return false;
}

TEST(EqualRows, NormsBehindProductsMakeThem) {
  EXPECT_TRUE(are_equal_behind("%y = LayerNorm(%p, %g) {axis = 2}"));
  EXPECT_TRUE(are_equal_behind("%y = RmsNorm(%p, %g) {axis = 2}"));
}

TEST(EqualRows, OutputsSeeTheirSize) {
  EXPECT_FALSE(are_equal_behind("%y = Add(%p, %g)"));
  EXPECT_FALSE(are_equal_behind("%a = Relu(%p)\n%y = MatMul(%a, %v)"));
  // The sum behind the norm is an output as well as what is normalised.
  EXPECT_FALSE(
      are_equal_behind("%a = Add(%p, %r)\n%n = RmsNorm(%a, %g) {axis = 2}\n%y = Add(%a, %n)"));
}

TEST(EqualRows, ResidualsActivationsViewsAndProductsLieBetween) {
  EXPECT_TRUE(are_equal_behind(R"(  %a = Add(%p, %g)
  %b = Gelu(%a)
  %c = MatMul(%b, %v)
  %d = Add(%c, %r)
  %y = LayerNorm(%d, %g) {axis = 2})"));
  EXPECT_TRUE(are_equal_behind(R"(  %a = Add(%r, %p)
  %n = RmsNorm(%a, %g) {axis = 2}
  %b = Silu(%n)
  %c = Add(%a, %b)
  %y = RmsNorm(%c, %g) {axis = 2})"));
  EXPECT_TRUE(are_equal_behind(R"(  %a = Transpose(%p) {perm = [1, 0, 2]}
  %b = Reshape(%a) {shape = [batch*seq, 8]}
  %y = RmsNorm(%b, %g) {axis = 1})"));
  // Heads of a row, each with a norm.
  EXPECT_TRUE(are_equal_behind(R"(  %g2 = const f32[4] random(4)
  %a = Reshape(%p) {shape = [batch, seq, 2, 4]}
  %b = Transpose(%a) {perm = [0, 2, 1, 3]}
  %y = RmsNorm(%b, %g2) {axis = 3})"));
  // A gate.
  EXPECT_TRUE(are_equal_behind(R"(  %a = Silu(%p)
  %b = Mul(%a, %r)
  %y = RmsNorm(%b, %g) {axis = 2})"));
}

TEST(EqualRows, NormsAreKnownByWhatTheyDo) {
  EXPECT_TRUE(are_equal_behind(R"(  %s = ReduceSumSquare(%p) {axes = [2], keepdims = 1}
  %n = Sqrt(%s)
  %y = Div(%p, %n))"));
  EXPECT_TRUE(are_equal_behind(R"(  %e = const f32[] {1e-12}
  %q = Mul(%p, %p)
  %s = ReduceSum(%q) {axes = [2], keepdims = 1}
  %m = Max(%s, %e)
  %n = Rsqrt(%m)
  %y = Mul(%p, %n))"));
  EXPECT_TRUE(are_equal_behind(R"(  %two = const f32[] {2}
  %m = ReduceMean(%p) {axes = [2], keepdims = 1}
  %d = Sub(%p, %m)
  %q = Pow(%d, %two)
  %s = ReduceMean(%q) {axes = [2], keepdims = 1}
  %n = Sqrt(%s)
  %y = Div(%d, %n))"));
  // A size that is divided by twice, or of all rows.
  EXPECT_FALSE(are_equal_behind(R"(  %s = ReduceSumSquare(%p) {axes = [2], keepdims = 1}
  %y = Div(%p, %s))"));
  EXPECT_FALSE(are_equal_behind(R"(  %s = ReduceSumSquare(%p) {axes = [1, 2], keepdims = 1}
  %n = Sqrt(%s)
  %y = Div(%p, %n))"));
  // A Softmax, spelled out or not, sees how large a row is.
  EXPECT_FALSE(are_equal_behind("%y = Softmax(%p) {axis = 2}"));
  EXPECT_FALSE(are_equal_behind(R"(  %e = Exp(%p)
  %s = ReduceSum(%e) {axes = [2], keepdims = 1}
  %y = Div(%e, %s))"));
}

TEST(EqualRows, WhatMixesRowsSeesThem) {
  // Attention's values, and means over a sequence.
  EXPECT_FALSE(are_equal_behind(R"(  %t = Transpose(%r) {perm = [0, 2, 1]}
  %s = MatMul(%r, %t)
  %a = MatMul(%s, %p)
  %y = RmsNorm(%a, %g) {axis = 2})"));
  EXPECT_FALSE(are_equal_behind(R"(  %m = ReduceMean(%p) {axes = [1], keepdims = 0}
  %y = RmsNorm(%m, %g) {axis = 1})"));
  // One of them alone does not.
  EXPECT_TRUE(are_equal_behind(R"(  %i = const i64[] {0}
  %m = Gather(%p, %i) {axis = 1}
  %y = RmsNorm(%m, %g) {axis = 1})"));
}

}  // namespace
}  // namespace sinter::fusion::test
