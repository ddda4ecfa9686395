// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/gemm/library_lowering.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

using codegen::ExprTable;
using testing::ElementsAre;
using testing::HasSubstr;

struct MatmulLoweringCase {
  const char* name;
  const char* text;
  ir::Bindings symbols;
  friend void PrintTo(const MatmulLoweringCase& value, std::ostream* os) { *os << value.name; }
};

const ir::Bindings kMatmulNone;
const ir::Bindings kMatmulLoweringSmall = {{"batch", 2}, {"seq", 5}};

class MatmulMeansItsBody : public testing::TestWithParam<MatmulLoweringCase> {};

TEST_P(MatmulMeansItsBody, OnRandomInputs) {
  const ir::Graph body = ir::parse_graph(GetParam().text);
  EXPECT_EQ(check_matmul(body, GetParam().symbols), "");
}

const MatmulLoweringCase kMatmulLoweringCases[] = {
    {"plain", R"(graph @g(%a: f32[3, 4], %b: f32[4, 5]) {
      %y = MatMul(%a, %b)
      return y = %y
    })",
     kMatmulNone},
    {"linear_layer",
     R"(graph @g(%a: f32[batch, seq, 6], %b: f32[6, 8], %bias: f32[8], %r: f32[batch, seq, 8]) {
      %y = MatMul(%a, %b)
      %half = const f32[] {0.5}
      %s = Mul(%y, %half)
      %t = Add(%bias, %s)
      %u = Add(%t, %r)
      %z = Gelu(%u)
      return z = %z
    })",
     kMatmulLoweringSmall},
    {"weight_transposed", R"(graph @g(%a: f32[batch, 6], %w: f32[8, 6], %bias: f32[8]) {
      %b = Transpose(%w) {perm = [1, 0]}
      %y = MatMul(%a, %b)
      %t = Add(%y, %bias)
      %z = Relu(%t)
      return z = %z
    })",
     kMatmulLoweringSmall},
    {"attention_scores", R"(graph @g(%q: f32[batch, seq, 12], %k: f32[batch, seq, 12]) {
      %q4 = Reshape(%q) {shape = [batch, seq, 3, 4]}
      %qt = Transpose(%q4) {perm = [0, 2, 1, 3]}
      %k4 = Reshape(%k) {shape = [batch, seq, 3, 4]}
      %kt = Transpose(%k4) {perm = [0, 2, 3, 1]}
      %s = MatMul(%qt, %kt)
      %root = const f32[] {2}
      %d = Div(%s, %root)
      return s = %d
    })",
     kMatmulLoweringSmall},
    {"attention_values", R"(graph @g(%p: f32[batch, 3, seq, seq], %v: f32[batch, seq, 12]) {
      %v4 = Reshape(%v) {shape = [batch, seq, 3, 4]}
      %vt = Transpose(%v4) {perm = [0, 2, 1, 3]}
      %o = MatMul(%p, %vt)
      %ot = Transpose(%o) {perm = [0, 2, 1, 3]}
      %y = Reshape(%ot) {shape = [batch, seq, 12]}
      return y = %y
    })",
     kMatmulLoweringSmall},
    {"packed_qkv_slices", R"(graph @g(%x: f32[batch, seq, 36]) {
      %q = Slice(%x) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [batch, seq, 12]}
      %k = Slice(%x) {starts = [0, 0, 12], steps = [1, 1, 1], shape = [batch, seq, 12]}
      %q4 = Reshape(%q) {shape = [batch, seq, 3, 4]}
      %qt = Transpose(%q4) {perm = [0, 2, 1, 3]}
      %k4 = Reshape(%k) {shape = [batch, seq, 3, 4]}
      %kt = Transpose(%k4) {perm = [0, 2, 3, 1]}
      %s = MatMul(%qt, %kt)
      return s = %s
    })",
     kMatmulLoweringSmall},
    {"stored_by_heads", R"(graph @g(%x: f32[batch, seq, 6], %w: f32[6, 12]) {
      %y = MatMul(%x, %w)
      %h = Reshape(%y) {shape = [batch, seq, 3, 4]}
      %t = Transpose(%h) {perm = [0, 2, 1, 3]}
      return t = %t
    })",
     kMatmulLoweringSmall},
    {"stored_transposed", R"(graph @g(%x: f32[batch, 5, 6], %w: f32[6, 4]) {
      %y = MatMul(%x, %w)
      %t = Transpose(%y) {perm = [0, 2, 1]}
      return t = %t
    })",
     kMatmulLoweringSmall},
    {"batch_broadcast", R"(graph @g(%x: f32[2, 1, 3, 4], %w: f32[5, 4, 6]) {
      %y = MatMul(%x, %w)
      return y = %y
    })",
     kMatmulNone},
    {"convolution_weights_left", R"(graph @g(%w: f32[4, 9], %u: f32[batch, 9, 8]) {
      %y = MatMul(%w, %u)
      return y = %y
    })",
     kMatmulLoweringSmall},
    {"one_row", R"(graph @g(%x: f32[batch, 1, 6], %w: f32[6, 8], %b: f32[8]) {
      %y = MatMul(%x, %w)
      %z = Add(%y, %b)
      return z = %z
    })",
     kMatmulLoweringSmall},
    // No rows of the batch: it repeats them, or their elements lie apart.
    {"one_row_that_a_batch_repeats", R"(graph @g(%x: f32[1, 1, 6], %w: f32[6, 8], %s: f32[batch]) {
      %a = Expand(%x) {shape = [batch, 1, 6]}
      %y = MatMul(%a, %w)
      return y = %y
    })",
     kMatmulLoweringSmall},
    {"one_row_of_a_transposed_matrix", R"(graph @g(%x: f32[batch, 6, seq], %w: f32[6, 8]) {
      %f = Slice(%x) {starts = [0, 0, 1], steps = [1, 1, 1], shape = [batch, 6, 1]}
      %a = Reshape(%f) {shape = [batch, 1, 6]}
      %y = MatMul(%a, %w)
      %z = Relu(%y)
      return z = %z
    })",
     kMatmulLoweringSmall},
    {"one_column_with_a_step", R"(graph @g(%a: f32[7, 6], %x: f32[batch, 12]) {
      %s = Slice(%x) {starts = [0, 0], steps = [1, 2], shape = [batch, 6]}
      %b = Reshape(%s) {shape = [batch, 6, 1]}
      %y = MatMul(%a, %b)
      return y = %y
    })",
     kMatmulLoweringSmall},
    {"one_row_that_is_stored_apart", R"(graph @g(%x: f32[batch, 1, 6], %w: f32[6, 8]) {
      %y = MatMul(%x, %w)
      %t = Transpose(%y) {perm = [1, 2, 0]}
      return t = %t
    })",
     kMatmulLoweringSmall},
    {"one_column", R"(graph @g(%x: f32[batch, 5, 6], %w: f32[6, 1]) {
      %y = MatMul(%x, %w)
      return y = %y
    })",
     kMatmulLoweringSmall},
    {"outer_product", R"(graph @g(%x: f32[batch, 5, 1], %w: f32[batch, 1, 4]) {
      %y = MatMul(%x, %w)
      return y = %y
    })",
     kMatmulLoweringSmall},
    {"residual_behind_reshape",
     R"(graph @g(%x: f32[batch, seq, 12], %w: f32[12, 8], %r: f32[batch*seq, 8]) {
      %y = MatMul(%x, %w)
      %f = Reshape(%y) {shape = [batch*seq, 8]}
      %z = Add(%f, %r)
      return z = %z
    })",
     kMatmulLoweringSmall},
    {"half", R"(graph @g(%x: f16[batch, 6], %w: f16[6, 4], %b: f32[4]) {
      %y = MatMul(%x, %w)
      %f = Cast(%y) {to = f32}
      %z = Add(%f, %b)
      return z = %z
    })",
     kMatmulLoweringSmall},
    {"quantized_groups", R"(graph @g(%x: f32[batch, seq, 20], %w: i8[3, 20], %s: f32[3, 2],
                                     %z: i8[3, 2], %bias: f32[3]) {
      %y = MatMul(%x, %w, %s, %z) {w = "(i8 - i8) * f32 group 16"}
      %t = Add(%y, %bias)
      %u = Relu(%t)
      return u = %u
    })",
     kMatmulLoweringSmall},
    {"quantized_four_bits", R"(graph @g(%x: f16[7, batch], %w: u8[5, 4], %s: f16[5, 1],
                                        %z: f32[5, 1]) {
      %t = Transpose(%x) {perm = [1, 0]}
      %y = MatMul(%t, %w, %s, %z) {w = "(i4 - f32) * f16 row"}
      %u = Transpose(%y) {perm = [1, 0]}
      return u = %u
    })",
     kMatmulLoweringSmall},
    {"quantized_one_column", R"(graph @g(%x: f32[batch, 5, 1], %w: i8[1, 1], %s: f32[1, 1]) {
      %y = MatMul(%x, %w, %s) {w = "i8 * f32 row"}
      return y = %y
    })",
     kMatmulLoweringSmall},
};

INSTANTIATE_TEST_SUITE_P(Bodies, MatmulMeansItsBody, testing::ValuesIn(kMatmulLoweringCases),
                         [](const auto& info) { return std::string(info.param.name); });

struct LoweredMatmul {
  ExprTable exprs;
  plan::fb::MatmulStepT step;
  std::string text(std::uint32_t expression) const { return exprs.dim(expression).to_string(); }
  std::vector<std::string> texts(const std::vector<std::uint32_t>& expressions) const {
    std::vector<std::string> result;
    for (const std::uint32_t expression : expressions) result.push_back(text(expression));
    return result;
  }
};
LoweredMatmul lower_text(const char* text, bool tf32 = false) {
  const ir::Graph body = ir::parse_graph(text);
  LoweredMatmul result{ExprTable(body.ranges()), {}};
  std::vector<std::uint32_t> inputs(body.inputs().size());
  for (std::uint32_t i = 0; i < inputs.size(); ++i) inputs[i] = i;
  const std::uint32_t output = static_cast<std::uint32_t>(inputs.size());
  result.step = codegen::lower_matmul(body, inputs, {&output, 1}, result.exprs, tf32);
  return result;
}
std::string matmul_lowering_lowering_error(const char* text) {
  try {
    lower_text(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(MatmulLowering, BatchJoinsTheRowsWhereTheRightSideHasNone) {
  const LoweredMatmul linear = lower_text(kMatmulLoweringCases[1].text);
  EXPECT_EQ(linear.text(linear.step.m), "batch*seq");
  EXPECT_TRUE(linear.step.batch.empty());
  EXPECT_EQ(linear.step.bias, 2);
  ASSERT_NE(linear.step.residual, nullptr);
  EXPECT_EQ(linear.step.alpha, 0.5f);
  EXPECT_EQ(linear.step.activation, plan::fb::Activation::GeluErf);
}

TEST(MatmulLowering, HeadsStayABatchOfTheirOwn) {
  const LoweredMatmul scores = lower_text(kMatmulLoweringCases[3].text);
  EXPECT_THAT(scores.texts(scores.step.batch), ElementsAre("batch", "3"));
  EXPECT_THAT(scores.texts(scores.step.a->batch_strides), ElementsAre("12*seq", "4"));
  EXPECT_EQ(scores.text(scores.step.a->row_stride), "12");
  EXPECT_EQ(scores.text(scores.step.b->row_stride), "1");
  EXPECT_EQ(scores.text(scores.step.b->col_stride), "12");
}

TEST(MatmulLowering, DenseBatchesMerge) {
  const LoweredMatmul step =
      lower_text(R"(graph @g(%a: f32[batch, 3, 4, 5], %b: f32[batch, 3, 5, 6]) {
      %y = MatMul(%a, %b)
      return y = %y
    })");
  EXPECT_THAT(step.texts(step.step.batch), ElementsAre("3*batch"));
}

TEST(MatmulLowering, OneRowTakesTheBatchAsRows) {
  const LoweredMatmul step = lower_text(kMatmulLoweringCases[10].text);
  EXPECT_EQ(step.text(step.step.m), "batch");
  EXPECT_TRUE(step.step.batch.empty());
}

TEST(MatmulLowering, TensorFloatOnlyForFloat32) {
  EXPECT_EQ(lower_text(kMatmulLoweringCases[0].text, true).step.math, plan::fb::MathMode::Tf32);
  EXPECT_EQ(lower_text(kMatmulLoweringCases[0].text, false).step.math, plan::fb::MathMode::Default);
  EXPECT_EQ(lower_text(R"(graph @g(%a: f16[3, 4], %b: f16[4, 5]) {
      %y = MatMul(%a, %b)
      return y = %y
    })",
                       true)
                .step.math,
            plan::fb::MathMode::Default);
}

TEST(MatmulLowering, QuantizedWeightsLieAsTheyAre) {
  const LoweredMatmul step =
      lower_text(R"(graph @g(%x: f32[batch, 2, 7], %w: u8[5, 4], %s: f32[5, 1]) {
      %y = MatMul(%x, %w, %s) {w = "i4 * f32 row"}
      return y = %y
    })");
  ASSERT_NE(step.step.quantization, nullptr);
  EXPECT_EQ(step.step.quantization->bits, 4);
  EXPECT_EQ(step.step.quantization->group, 7U);
  EXPECT_EQ(step.step.quantization->scales, 2U);
  EXPECT_EQ(step.step.quantization->zero_points, -1);
  EXPECT_EQ(step.text(step.step.m), "2*batch");
  EXPECT_EQ(step.text(step.step.b->row_stride), "1");
  EXPECT_EQ(step.text(step.step.b->col_stride), "8");
}

TEST(MatmulLowering, RefusesWhatALibraryCallCannotDo) {
  EXPECT_THAT(matmul_lowering_lowering_error(R"(graph @g(%a: f32[3, 4], %b: f32[4, 5]) {
      %e = Exp(%a)
      %y = MatMul(%e, %b)
      return y = %y
    })"),
              HasSubstr("made by Exp"));
  EXPECT_THAT(matmul_lowering_lowering_error(R"(graph @g(%a: f32[3, 4], %b: f32[4, 5]) {
      %y = MatMul(%a, %b)
      %z = Exp(%y)
      return z = %z
    })"),
              HasSubstr("Exp"));
  EXPECT_THAT(matmul_lowering_lowering_error(R"(graph @g(%a: f32[3, 4], %b: f32[4, 5], %c: f32[5]) {
      %y = MatMul(%a, %b)
      %r = Relu(%y)
      %z = Add(%r, %c)
      return z = %z
    })"),
              HasSubstr("follows the activation"));
  EXPECT_THAT(
      matmul_lowering_lowering_error(R"(graph @g(%a: f32[3, 4], %b: f32[4, 5], %c: f32[3, 1]) {
      %y = MatMul(%a, %b)
      %z = Add(%y, %c)
      return z = %z
    })"),
      HasSubstr("neither a bias"));
  EXPECT_THAT(matmul_lowering_lowering_error(R"(graph @g(%a: f32[3, 8], %b: f32[4, 5]) {
      %s = Slice(%a) {starts = [0, 0], steps = [1, 2], shape = [3, 4]}
      %y = MatMul(%s, %b)
      return y = %y
    })"),
              HasSubstr("strides 8 and 2"));
  EXPECT_THAT(matmul_lowering_lowering_error(R"(graph @g(%a: i32[3, 4], %b: i32[4, 5]) {
      %p = MatMul(%a, %b)
      %y = Relu(%p)
      return y = %y
    })"),
              HasSubstr("floating-point"));
  EXPECT_THAT(matmul_lowering_lowering_error(R"(graph @g(%a: f32[2, 3, 4], %b: f32[8, 5]) {
      %t = Transpose(%a) {perm = [1, 2, 0]}
      %r = Reshape(%t) {shape = [3, 8]}
      %y = MatMul(%r, %b)
      return y = %y
    })"),
              HasSubstr("not a strided access"));
}

}  // namespace
}  // namespace sinter::test
