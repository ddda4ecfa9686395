// SPDX-License-Identifier: Apache-2.0
// Regions of loops mean what their bodies say.
#include "codegen/program/loop_lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/text/text.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

using codegen::ExprTable;
using testing::HasSubstr;

struct LoopLoweringCase {
  const char* name;
  const char* text;
  ir::Bindings symbols;
  friend void PrintTo(const LoopLoweringCase& value, std::ostream* os) { *os << value.name; }
};

class RegionMeansItsBody : public testing::TestWithParam<LoopLoweringCase> {};

TEST_P(RegionMeansItsBody, OnRandomInputs) {
  const ir::Graph body = ir::parse_graph(GetParam().text);
  for (const std::uint64_t seed : {1, 2})
    EXPECT_EQ(check_region(body, GetParam().symbols, seed), "");
}

const ir::Bindings kNone;
const ir::Bindings kLoopLoweringSmall = {{"batch", 2}, {"seq", 5}};

const LoopLoweringCase kLoopLoweringCases[] = {
    {"add_broadcast", R"(graph @g(%x: f32[batch, seq, 8], %b: f32[8]) {
      %y = Add(%x, %b)
      %z = Tanh(%y)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"scalar", R"(graph @g(%x: f32[], %y: f32[]) {
      %z = Mul(%x, %y)
      return z = %z
    })",
     kNone},
    {"transpose", R"(graph @g(%x: f32[batch, seq, 12]) {
      %y = Transpose(%x) {perm = [2, 0, 1]}
      %z = Exp(%y)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"split_heads", R"(graph @g(%x: f32[batch, seq, 12]) {
      %h = Reshape(%x) {shape = [batch, seq, 3, 4]}
      %t = Transpose(%h) {perm = [0, 2, 1, 3]}
      %z = Neg(%t)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"merge_heads", R"(graph @g(%x: f32[batch, 3, seq, 4], %r: f32[batch, seq, 12]) {
      %t = Transpose(%x) {perm = [0, 2, 1, 3]}
      %h = Reshape(%t) {shape = [batch, seq, 12]}
      %z = Add(%h, %r)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"reshape_not_affine", R"(graph @g(%x: f32[6, 4]) {
      %t = Transpose(%x) {perm = [1, 0]}
      %r = Reshape(%t) {shape = [3, 8]}
      %z = Abs(%r)
      return z = %z
    })",
     kNone},
    {"two_outputs", R"(graph @g(%x: f32[batch, 6], %y: f32[batch, 6]) {
      %a = Add(%x, %y)
      %b = Mul(%a, %x)
      return a = %a, b = %b
    })",
     kLoopLoweringSmall},
    {"outputs_of_two_ranks", R"(graph @g(%x: f32[batch, 6]) {
      %a = Exp(%x)
      %r = Reshape(%a) {shape = [batch, 2, 3]}
      %b = Neg(%r)
      return a = %a, b = %b
    })",
     kLoopLoweringSmall},
    {"concat", R"(graph @g(%x: f32[2, 3], %y: f32[2, 4], %w: f32[2, 1]) {
      %e = Exp(%x)
      %c = Concat(%e, %y, %w) {axis = 1}
      %z = Mul(%c, %c)
      return z = %z
    })",
     kNone},
    {"concat_symbolic", R"(graph @g(%x: f32[seq, 3], %y: f32[batch, 3]) {
      %c = Concat(%x, %y) {axis = 0}
      %z = Neg(%c)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"rotate_half", R"(graph @g(%x: f32[batch, seq, 8], %cos: f32[seq, 8], %sin: f32[seq, 8]) {
      %lo = Slice(%x) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [batch, seq, 4]}
      %hi = Slice(%x) {starts = [0, 0, 4], steps = [1, 1, 1], shape = [batch, seq, 4]}
      %neg = Neg(%hi)
      %rot = Concat(%neg, %lo) {axis = 2}
      %a = Mul(%x, %cos)
      %b = Mul(%rot, %sin)
      %z = Add(%a, %b)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"pad", R"(graph @g(%x: f32[3, 5]) {
      %p = Pad(%x) {begins = [1, 0], ends = [2, 3], fill = 1.5}
      %z = Mul(%p, %p)
      return z = %z
    })",
     kNone},
    {"pad_of_computed", R"(graph @g(%x: f32[3, seq]) {
      %e = Exp(%x)
      %p = Pad(%e) {begins = [1, 2], ends = [0, 1], fill = -2}
      %z = Neg(%p)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"pad_of_pad", R"(graph @g(%x: f32[4]) {
      %p = Pad(%x) {begins = [1], ends = [1], fill = 7}
      %q = Pad(%p) {begins = [2], ends = [1], fill = -3}
      return z = %q
    })",
     kNone},
    {"crop", R"(graph @g(%x: f32[7, 6]) {
      %p = Pad(%x) {begins = [-1, 1], ends = [-2, 0], fill = 0.0}
      return z = %p
    })",
     kNone},
    {"slice_backwards", R"(graph @g(%x: f32[6, 7]) {
      %s = Slice(%x) {starts = [5, 1], steps = [-2, 3], shape = [3, 2]}
      return z = %s
    })",
     kNone},
    {"unfold", R"(graph @g(%x: f32[2, 3, 6, 5]) {
      %u = Unfold(%x) {kernel = [3, 2], strides = [2, 1], dilations = [1, 2], pads_begin = [1, 0], pads_end = [1, 1]}
      return z = %u
    })",
     kNone},
    {"unfold_as_matrix", R"(graph @g(%x: f32[batch, 3, 8]) {
      %u = Unfold(%x) {kernel = [3], strides = [1], dilations = [1], pads_begin = [1], pads_end = [1]}
      %r = Reshape(%u) {shape = [batch, 9, 8]}
      return z = %r
    })",
     kLoopLoweringSmall},
    {"gather_rows", R"(graph @g(%table: f32[9, 4], %ids: i64[batch, seq]) {
      %e = Gather(%table, %ids) {axis = 0}
      %z = Neg(%e)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"gather_middle_of_view", R"(graph @g(%table: f32[4, 3, 5], %ids: i32[2, 3]) {
      %t = Transpose(%table) {perm = [2, 0, 1]}
      %c = Square(%t)
      %e = Gather(%c, %ids) {axis = 1}
      return z = %e
    })",
     kNone},
    {"gather_computed_index", R"(graph @g(%table: f32[4, 3], %ids: i64[seq]) {
      %one = const i64[] {1}
      %zero = const i64[] {0}
      %i = Max(%ids, %zero)
      %j = Add(%i, %one)
      %e = Gather(%table, %j) {axis = 0}
      return z = %e
    })",
     kLoopLoweringSmall},
    {"select_and_cast", R"(graph @g(%m: i64[batch, 1, 1, seq], %x: f32[batch, 2, seq, seq]) {
      %one = const f32[] {1}
      %big = const f32[] {-10000}
      %f = Cast(%m) {to = f32}
      %inv = Sub(%one, %f)
      %mask = Mul(%inv, %big)
      %c = Greater(%x, %one)
      %y = Where(%c, %x, %mask)
      return z = %y
    })",
     kLoopLoweringSmall},
    {"half_types", R"(graph @g(%x: f16[4, 6], %y: bf16[4, 6]) {
      %a = Cast(%x) {to = f32}
      %b = Cast(%y) {to = f32}
      %c = Mul(%a, %b)
      %d = Cast(%c) {to = f16}
      return z = %d
    })",
     kNone},
    {"bools", R"(graph @g(%x: f32[4, 6], %b: bool[6]) {
      %zero = const f32[] {0}
      %c = Less(%x, %zero)
      %d = And(%c, %b)
      %e = Not(%d)
      return z = %e
    })",
     kNone},
    {"double_stays_double", R"(graph @g(%x: f64[5], %y: f32[5]) {
      %a = Cast(%y) {to = f64}
      %b = Add(%x, %a)
      return z = %b
    })",
     kNone},
    {"splat_constant", R"(graph @g(%x: f32[3, 4]) {
      %c = const f32[4] splat(0.5)
      %z = Mul(%x, %c)
      return z = %z
    })",
     kNone},
    {"softmax", R"(graph @g(%x: f32[batch, 2, seq, seq]) {
      %m = ReduceMax(%x) {axes = [3], keepdims = 1}
      %s = Sub(%x, %m)
      %e = Exp(%s)
      %t = ReduceSum(%e) {axes = [3], keepdims = 1}
      %z = Div(%e, %t)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"softmax_middle", R"(graph @g(%x: f32[3, 5, 4]) {
      %m = ReduceMax(%x) {axes = [1], keepdims = 1}
      %s = Sub(%x, %m)
      %e = Exp(%s)
      %t = ReduceSum(%e) {axes = [1], keepdims = 1}
      %z = Div(%e, %t)
      return z = %z
    })",
     kNone},
    {"layernorm_no_keepdims",
     R"(graph @g(%x: f32[batch, seq, 8], %r: f32[batch, seq, 8], %g: f32[8], %b: f32[8]) {
      %x1 = Add(%x, %r)
      %m0 = ReduceMean(%x1) {axes = [2], keepdims = 0}
      %m = Reshape(%m0) {shape = [batch, seq, 1]}
      %d = Sub(%x1, %m)
      %q = Square(%d)
      %v = ReduceMean(%q) {axes = [2], keepdims = 1}
      %eps = const f32[] {1e-05}
      %ve = Add(%v, %eps)
      %i = Rsqrt(%ve)
      %n = Mul(%d, %i)
      %s = Mul(%n, %g)
      %z = Add(%s, %b)
      return sum = %x1, z = %z, mean = %m0, var = %v
    })",
     kLoopLoweringSmall},
    {"mean_over_symbol", R"(graph @g(%x: f32[batch, seq, 3]) {
      %m = ReduceMean(%x) {axes = [1], keepdims = 0}
      %s = ReduceSumSquare(%x) {axes = [1], keepdims = 0}
      %z = Mul(%m, %s)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"group_norm", R"(graph @g(%x: f32[batch, 6, seq], %g: f32[6, 1]) {
      %r = Reshape(%x) {shape = [batch, 2, 3*seq]}
      %m = ReduceMean(%r) {axes = [2], keepdims = 1}
      %d = Sub(%r, %m)
      %y = Reshape(%d) {shape = [batch, 6, seq]}
      %z = Mul(%y, %g)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"norm_then_heads", R"(graph @g(%x: f32[batch, seq, 12]) {
      %s = ReduceMax(%x) {axes = [2], keepdims = 1}
      %d = Sub(%x, %s)
      %h = Reshape(%d) {shape = [batch, seq, 3, 4]}
      %t = Transpose(%h) {perm = [0, 2, 1, 3]}
      return z = %t
    })",
     kLoopLoweringSmall},
    {"reduce_all", R"(graph @g(%x: f32[3, 4]) {
      %m = ReduceMin(%x) {axes = [0, 1], keepdims = 0}
      return z = %m
    })",
     kNone},
    {"reduce_one", R"(graph @g(%x: f32[3, 1]) {
      %m = ReduceSum(%x) {axes = [1], keepdims = 0}
      return z = %m
    })",
     kNone},
    {"reduce_two_of_three", R"(graph @g(%x: f32[3, 4, 5], %y: f32[4]) {
      %p = ReduceProd(%x) {axes = [0, 2], keepdims = 0}
      %z = Add(%p, %y)
      return z = %z
    })",
     kNone},
    {"reduce_unit_dims_differ", R"(graph @g(%x: f32[3, 4]) {
      %m = ReduceMax(%x) {axes = [1], keepdims = 1}
      %e = Sub(%x, %m)
      %r = Reshape(%e) {shape = [3, 1, 4]}
      %s = ReduceSum(%r) {axes = [2], keepdims = 0}
      return z = %s
    })",
     kNone},
    {"reduce_batch_merged", R"(graph @g(%x: f32[batch, 2, seq]) {
      %m = ReduceMax(%x) {axes = [2], keepdims = 1}
      %e = Sub(%x, %m)
      %r = Reshape(%e) {shape = [2*batch, seq]}
      %s = ReduceSum(%r) {axes = [1], keepdims = 1}
      %d = Div(%r, %s)
      return z = %d
    })",
     kLoopLoweringSmall},
    {"embedding_norm", R"(graph @g(%t: f32[7, 6], %p: f32[9, 6], %ids: i64[batch, seq]) {
      %e = Gather(%t, %ids) {axis = 0}
      %q = Slice(%p) {starts = [0, 0], steps = [1, 1], shape = [seq, 6]}
      %x = Add(%e, %q)
      %m = ReduceMean(%x) {axes = [2], keepdims = 1}
      %d = Sub(%x, %m)
      return z = %d
    })",
     kLoopLoweringSmall},
    {"masked_mean", R"(graph @g(%x: f32[batch, seq, 4], %m: i64[batch, seq]) {
      %u = Reshape(%m) {shape = [batch, seq, 1]}
      %w = Expand(%u) {shape = [batch, seq, 4]}
      %f = Cast(%w) {to = f32}
      %p = Mul(%x, %f)
      %s = ReduceSum(%p) {axes = [1], keepdims = 0}
      %c = ReduceSum(%f) {axes = [1], keepdims = 0}
      %z = Mul(%s, %c)
      return z = %z
    })",
     kLoopLoweringSmall},
    {"reduce_of_pad", R"(graph @g(%x: f32[3, seq]) {
      %p = Pad(%x) {begins = [0, 1], ends = [0, 2], fill = 4}
      %m = ReduceMax(%p) {axes = [1], keepdims = 1}
      %d = Sub(%p, %m)
      return z = %d
    })",
     kLoopLoweringSmall},
    {"integer_mean", R"(graph @g(%x: i64[3, 4]) {
      %m = ReduceMean(%x) {axes = [1], keepdims = 1}
      return z = %m
    })",
     kNone},
};

INSTANTIATE_TEST_SUITE_P(Bodies, RegionMeansItsBody, testing::ValuesIn(kLoopLoweringCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sinter::test
