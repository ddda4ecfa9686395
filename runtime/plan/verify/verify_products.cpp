// SPDX-License-Identifier: Apache-2.0
// Products, of quantized weights too.
#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "runtime/plan/verify/verify_kinds.h"

namespace sinter::plan {
namespace {

void verify_matrix(const Checker& check, const fb::MatrixT& matrix, std::size_t batch,
                   const char* what) {
  verify_strided(check, matrix, batch, what);
  if (static_cast<DType>(matrix.dtype) == DType::kBool)
    check.fail("{} is of type bool; products are of numbers", what);
  if (!is_one(check, matrix.row_stride) && !is_one(check, matrix.col_stride))
    check.fail("neither rows nor columns of {} are contiguous", what);
}

/// Operand b of a GEMM with quantized weights, and its scales and zero points.
void verify_quantization(const Checker& check, const fb::MatmulStepT& work, Uses& uses) {
  const fb::QuantizationT& quantization = *work.quantization;
  if (check.plan.target == "cuda")
    check.fail("a product with quantized weights must be a kernel on target 'cuda'");
  const bool are_floats = quantization.bits == 16, in_panels = quantization.panels;
  if (quantization.bits != 4 && quantization.bits != 8 && !(are_floats && in_panels))
    check.fail("its weights have {} bits{}", quantization.bits,
               are_floats ? ", and are in no panels" : "");
  if (quantization.group == 0 || quantization.group > INT64_MAX)
    check.fail("its weights have groups of {}", quantization.group);
  const auto constant = [&](std::uint32_t expression) {
    const fb::ExprNode& node = check.plan.expressions[expression];
    return node.op() == fb::ExprOp::Constant ? node.value() : -1;
  };
  const std::int64_t k = constant(work.k);
  constexpr std::int64_t kMaxColumns = std::int64_t{1} << 48;
  const auto pitch = [&] { return quantization.bits == 8 ? k : k + k % 2; };
  const auto stored = static_cast<DType>(work.b->dtype);
  const bool is_constant = k >= 0 && k <= kMaxColumns && constant(work.n) >= 0 &&
                           constant(work.n) <= kMaxColumns && constant(work.b->offset) == 0;
  const bool is_plain = stored == (quantization.bits == 8 ? DType::kInt8 : DType::kUInt8) &&
                        (k == 1 || constant(work.b->row_stride) == 1) &&
                        (constant(work.n) <= 1 || constant(work.b->col_stride) == pitch());
  const bool is_panel = are_floats ? stored == DType::kFloat16 || stored == DType::kBFloat16
                                   : stored == DType::kUInt8;
  if (!is_constant || !(in_panels ? is_panel : is_plain))
    check.fail("operand b of type {} is no plain matrix{} of {}-bit weights", to_string(stored),
               in_panels ? " in panels" : "", quantization.bits);
  if (in_panels && (quantization.factors >= 0 || quantization.unit != 1))
    check.fail("its weights in panels have factors or a unit beside their scales");
  if (quantization.activations != 0) {
    const auto group = static_cast<std::int64_t>(quantization.group);
    const bool is_block = quantization.block == 16 || quantization.block == 32;
    if (quantization.activations != 8 || !in_panels || are_floats || !is_block ||
        (group < k && group % quantization.block != 0))
      check.fail("its rows are rounded to {} bits by blocks of {}, where groups have {}",
                 quantization.activations, quantization.block, group);
  }
  if (quantization.zero != 0 && (!in_panels || quantization.bits != 4))
    check.fail("its weights have a zero point of {}", quantization.zero);
  for (const std::uint32_t stride : work.b->batch_strides)
    if (constant(stride) != 0) check.fail("its quantized weights have a batch");
  const auto require_weight = [&](std::uint32_t buffer, const char* what) {
    if (check.buffer(buffer, what).kind != fb::BufferKind::Weight)
      check.fail("{} are in buffer {}, which is an {}", what, buffer,
                 fb::EnumNameBufferKind(check.buffer(buffer, what).kind));
  };
  require_weight(work.b->buffer, "its quantized weights");
  require_weight(quantization.scales, "its scales");
  if (!is_narrow(static_cast<DType>(work.a->dtype)) ||
      !is_narrow(static_cast<DType>(work.d->dtype)))
    check.fail("a product of {} with quantized weights into {}",
               to_string(static_cast<DType>(work.a->dtype)),
               to_string(static_cast<DType>(work.d->dtype)));
  const bool is_table = !quantization.numbers.empty();
  if (is_table && (quantization.bits != 4 || quantization.numbers.size() != 16))
    check.fail("its codes of {} bits stand for {} numbers", quantization.bits,
               quantization.numbers.size());
  const DType scales = check.dtype(check.buffer(quantization.scales, "its scales").dtype, "scales");
  const auto in_words = [](DType type) {
    return type == DType::kFloat16 || type == DType::kFloat32;
  };
  if (in_panels ? !in_words(scales)
                : !is_narrow(scales) && scales != DType::kFloat8E4M3FN && scales != DType::kUInt8)
    check.fail("its scales are of type {}", to_string(scales));
  uses.reads.insert(quantization.scales);
  const auto read = [&](std::int32_t buffer, const char* what, const char* its,
                        std::initializer_list<DType> types) {
    if (buffer < -1) check.fail("{} are buffer {}", its, buffer);
    if (buffer < 0) return;
    const auto own = static_cast<std::uint32_t>(buffer);
    require_weight(own, its);
    const DType type = check.dtype(check.buffer(own, its).dtype, what);
    if (std::ranges::find(types, type) == types.end())
      check.fail("{} are of type {}", its, to_string(type));
    uses.reads.insert(own);
  };
  read(quantization.zero_points, "zero points", "its zero points", {DType::kInt8, DType::kFloat32});
  read(quantization.factors, "factors", "its factors", {DType::kFloat32});
  read(quantization.offsets, "offsets", "its offsets",
       {DType::kFloat16, in_panels ? DType::kFloat32 : DType::kBFloat16, DType::kFloat32});
  if (!(quantization.unit > 0) || quantization.unit > 1)
    check.fail("the unit of its numbers is {}", quantization.unit);
  if (are_floats && (quantization.zero_points >= 0 || quantization.offsets >= 0))
    check.fail("its weights are floats with zero points or offsets");
  if (is_table && quantization.zero_points >= 0)
    check.fail("its codes have numbers and zero points");
}

/// A GEMM of 8-bit floats may mix e4m3 and e5m2.
bool mixes_float8(const fb::MatmulStepT& work) {
  return is_float8(static_cast<DType>(work.a->dtype)) &&
         is_float8(static_cast<DType>(work.b->dtype));
}

}  // namespace

void verify_matmul(const Checker& check, const fb::MatmulStepT& work, Uses& uses) {
  check.expression(work.m, "m");
  check.expression(work.n, "n");
  check.expression(work.k, "k");
  check.rank(work.batch.size(), "the batch");
  check.expressions(work.batch, "a batch dimension");
  check.in_range(work.activation, fb::Activation::GeluTanh, "its activation");
  check.in_range(work.math, fb::MathMode::MAX, "its math mode");
  verify_matrix(check, *work.a, work.batch.size(), "operand a");
  verify_matrix(check, *work.b, work.batch.size(), "operand b");
  verify_matrix(check, *work.d, work.batch.size(), "result d");
  if (work.quantization)
    verify_quantization(check, work, uses);
  else if (work.a->dtype != work.b->dtype && !mixes_float8(work) &&
           !are_narrow(work.a->dtype, work.b->dtype, work.d->dtype))
    check.fail("its operands are of types {} and {}", to_string(static_cast<DType>(work.a->dtype)),
               to_string(static_cast<DType>(work.b->dtype)));
  uses.reads.insert({work.a->buffer, work.b->buffer});
  uses.writes.insert(work.d->buffer);
  if (work.residual) {
    verify_matrix(check, *work.residual, work.batch.size(), "the residual");
    if (work.residual->dtype != work.d->dtype) check.fail("the residual is not of d's type");
    uses.reads.insert(work.residual->buffer);
  }
  if (work.bias < -1) check.fail("its bias is buffer {}", work.bias);
  if (work.bias >= 0) {
    const auto bias = static_cast<std::uint32_t>(work.bias);
    if (check.buffer(bias, "the bias").dtype != work.d->dtype)
      check.fail("the bias is not of d's type");
    uses.reads.insert(bias);
  }
}

}  // namespace sinter::plan
