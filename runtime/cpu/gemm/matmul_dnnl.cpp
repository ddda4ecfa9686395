// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/matmul_dnnl.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <sinter/error.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/gemm/gemm_dnnl.h"
#include "runtime/cpu/gemm/matmul_generic.h"
#include "runtime/cpu/gemm/matmul_narrow.h"
#include "runtime/cpu/gemm/matmul_widened.h"
#include "runtime/cpu/gemm/operand_lines.h"

namespace sinter::runtime::cpu {
namespace {

using plan::fb::BufferKind;
using plan::fb::MatmulStepT;
using plan::fb::MatrixT;

GemmOperand operand_of(const MatrixT& matrix, std::span<const std::int64_t> values) {
  GemmOperand operand{matrix.buffer,
                      values[matrix.offset],
                      {},
                      values[matrix.row_stride],
                      values[matrix.col_stride],
                      static_cast<DType>(matrix.dtype)};
  for (const auto stride : matrix.batch_strides) operand.batch_strides.push_back(values[stride]);
  return operand;
}

/// Floats of at most 32 bits.
bool is_short_float(DType type) { return is_float(type) && type != DType::kFloat64; }

}  // namespace

struct MatmulDnnl::Impl {
  std::optional<PrimitiveParts> parts;
  std::optional<CopiedOperands> copies;  // read by the parts
  std::optional<MatmulNarrow> narrow;
  std::optional<MatmulWidened> widened;
  std::optional<MatmulGeneric> generic;
  int threads = 1;
};

MatmulDnnl::MatmulDnnl(const plan::PlanData& plan, const MatmulStepT& step, const BoundShape& shape,
                       PackedWeights& weights, int threads)
    : impl_(std::make_unique<Impl>()) {
  const auto type_of = [](const MatrixT& matrix) { return static_cast<DType>(matrix.dtype); };
  const DType a = type_of(*step.a), b = type_of(*step.b), d = type_of(*step.d);
  const auto is_byte = [](DType type) { return type == DType::kInt8 || type == DType::kUInt8; };
  // verify_plan checks that bias and residual have d's type.
  const bool is_float = a == b && ((a == DType::kFloat32 && d == DType::kFloat32) ||
                                   (a == DType::kBFloat16 && (d == a || d == DType::kFloat32) &&
                                    multiplies_bfloat16())),
             is_short = is_short_float(a) && is_short_float(b) && is_short_float(d),
             is_narrow =
                 is_byte(a) && is_byte(b) && d == DType::kInt32 && !step.residual && step.bias < 0;
  const auto& values = shape.expressions;
  Product product;
  for (const auto size : step.batch) product.batch.push_back(values[size]);
  product.m = values[step.m], product.n = values[step.n], product.k = values[step.k];
  const bool empty = product.m == 0 || product.n == 0 || product.k == 0 ||
                     std::ranges::count(product.batch, 0) > 0;
  constexpr std::size_t kMaxBatchDims = 4;
  const bool fits = product.batch.size() <= kMaxBatchDims;
  const bool is_of_dnnl = fits && (is_float || (is_narrow && multiplies_exactly(a, b)));
  const bool is_widened = fits && !is_float && is_short;
  if (empty || !(is_of_dnnl || is_widened || is_narrow)) {
    impl_->generic.emplace(plan, step, shape, threads);
    return;
  }
  product.a = operand_of(*step.a, values);
  product.b = operand_of(*step.b, values);
  product.d = operand_of(*step.d, values);
  if (!is_of_dnnl && !is_widened) {
    impl_->narrow.emplace(product, plan, shape, weights, threads);
    return;
  }
  if (step.residual) product.residual = operand_of(*step.residual, values);
  if (step.bias >= 0) product.bias = static_cast<std::uint32_t>(step.bias);
  product.alpha = step.alpha;
  product.activation = step.activation;
  const auto& b_buffer = *plan.meta.buffers[step.b->buffer];
  if (b_buffer.kind == BufferKind::Weight)
    product.b_weight = plan.weight(b_buffer, shape.bytes_of(b_buffer)).data();
  with_dnnl_errors("matrix product", [&] {
    if (is_widened) {
      impl_->widened.emplace(product, weights, threads);
      return;
    }
    CopiedOperands copies(product, plan.meta.buffers.size(), weights);
    if (!copies.none()) {
      impl_->copies = std::move(copies);
      impl_->threads = threads;
    }
    impl_->parts = divide_product(std::move(product), weights, threads);
  });
}

MatmulDnnl::~MatmulDnnl() = default;
MatmulDnnl::MatmulDnnl(MatmulDnnl&&) noexcept = default;

std::size_t MatmulDnnl::workspace_bytes() const {
  if (impl_->narrow) return impl_->narrow->workspace_bytes();
  if (impl_->widened) return impl_->widened->workspace_bytes();
  return impl_->parts ? impl_->parts->workspace_bytes() : 0;
}

std::uint64_t MatmulDnnl::own_bytes() const {
  if (impl_->generic) return impl_->generic->own_bytes();
  if (impl_->widened) return impl_->widened->own_bytes();
  return impl_->copies ? impl_->copies->own_bytes() : 0;
}

void MatmulDnnl::execute(std::span<std::byte* const> buffers,
                         std::span<std::byte* const> workspaces) {
  if (impl_->generic) return impl_->generic->execute(buffers);
  if (impl_->narrow) return impl_->narrow->execute(buffers, workspaces);
  with_dnnl_errors("matrix product", [&] {
    if (impl_->widened)
      impl_->widened->execute(buffers, workspaces);
    else if (impl_->copies)
      impl_->parts->execute(impl_->copies->copy(buffers, impl_->threads), workspaces);
    else
      impl_->parts->execute(buffers, workspaces);
  });
}

}  // namespace sinter::runtime::cpu
