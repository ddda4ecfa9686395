// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/quant/matmul_quant.h"

#include <algorithm>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/element.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {

MatmulQuant::Operand MatmulQuant::operand(const plan::fb::MatrixT& matrix,
                                          std::span<const std::int64_t> values) const {
  Operand result;
  result.buffer = matrix.buffer;
  result.dtype = static_cast<DType>(matrix.dtype);
  result.step = values[matrix.col_stride];
  result.rows.reserve(static_cast<std::size_t>(rows_));
  std::vector<std::int64_t> index(batch_.size(), 0);
  for (std::int64_t done = 0; done < rows_; done += m_) {
    std::int64_t at = values[matrix.offset];
    for (std::size_t b = 0; b < batch_.size(); ++b)
      at += index[b] * values[matrix.batch_strides[b]];
    for (std::int64_t r = 0; r < m_; ++r) result.rows.push_back(at + r * values[matrix.row_stride]);
    for (std::size_t b = batch_.size(); b-- > 0;) {
      if (++index[b] < batch_[b]) break;
      index[b] = 0;
    }
  }
  return result;
}

MatmulQuant::MatmulQuant(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
                         const BoundShape& shape, PackedWeights& weights, int threads) {
  const auto& values = shape.expressions;
  m_ = values[step.m];
  n_ = values[step.n];
  k_ = values[step.k];
  rows_ = m_;
  for (const auto size : step.batch) rows_ *= batch_.emplace_back(values[size]);
  a_ = operand(*step.a, values);
  d_ = operand(*step.d, values);
  if (step.residual) {
    residual_ = operand(*step.residual, values);
    has_residual_ = true;
  }
  bias_ = step.bias;
  alpha_ = step.alpha;
  activation_ = step.activation;
  const plan::fb::QuantizationT& quantization = *step.quantization;
  QuantSource source;
  source.values = step.b->buffer;
  source.scales = quantization.scales;
  source.zero_points = quantization.zero_points;
  source.factors = quantization.factors;
  source.offsets = quantization.offsets;
  source.n = n_;
  source.k = k_;
  source.bits = quantization.bits;
  source.group = static_cast<std::int64_t>(
      std::min<std::uint64_t>(quantization.group, std::max<std::int64_t>(k_, 1)));
  source.numbers = quantization.numbers;
  source.unit = quantization.unit;
  weights_ = QuantWeights(plan.meta, source, weights);
  const double multiplications =
      static_cast<double>(rows_) * static_cast<double>(n_) * static_cast<double>(k_);
  threads_ = threads_for(multiplications, threads);
  workspace_floats_ = 2 * kQuantColumns + quant_workspace_floats(rows_, k_);
}

/// What a thread reads, and the epilogue.
class MatmulQuant::Rows {
 public:
  /// `space`: 2 * kQuantColumns floats.
  Rows(const MatmulQuant& product, std::span<std::byte* const> buffers, float* space)
      : p_(product), buffers_(buffers), bias_(space), row_(space + kQuantColumns) {}

  std::int64_t count() const { return p_.rows_; }

  const float* x(std::int64_t row, std::int64_t begin, std::int64_t end, float* space) const {
    const Operand& a = p_.a_;
    const std::byte* from =
        buffers_[a.buffer] + (a.rows[static_cast<std::size_t>(row)] + begin * a.step) *
                                 static_cast<std::int64_t>(size_of(a.dtype));
    if (takes_floats(a)) return reinterpret_cast<const float*>(from);
    load_floats(a.dtype, from, a.step, end - begin, space);
    return space;
  }

  void begin(std::int64_t n, std::int64_t count) {
    if (p_.bias_ < 0) return;
    const auto size = static_cast<std::int64_t>(size_of(p_.d_.dtype));
    load_floats(p_.d_.dtype, buffers_[static_cast<std::size_t>(p_.bias_)] + n * size, 1, count,
                bias_);
  }

  void finish(std::int64_t row, std::int64_t n, std::int64_t count, float* sums) {
    const auto at = [&](const Operand& operand) {
      return buffers_[operand.buffer] +
             (operand.rows[static_cast<std::size_t>(row)] + n * operand.step) *
                 static_cast<std::int64_t>(size_of(operand.dtype));
    };
    if (p_.has_residual_)
      load_floats(p_.residual_.dtype, at(p_.residual_), p_.residual_.step, count, row_);
    finish_values(sums, count, p_.alpha_, p_.bias_ < 0 ? nullptr : bias_,
                  p_.has_residual_ ? row_ : nullptr, p_.activation_);
    store_floats(p_.d_.dtype, sums, at(p_.d_), p_.d_.step, count);
  }

 private:
  const MatmulQuant& p_;
  std::span<std::byte* const> buffers_;
  float *bias_, *row_;
};

void MatmulQuant::run(std::span<std::byte* const> buffers,
                      std::span<std::byte* const> workspaces) const {
  if (rows_ == 0 || n_ == 0) return;
  const std::int64_t step = quant_part_columns(rows_);
  const std::int64_t columns = rounded_up_to(n_, step) / step;
  const std::int64_t parts = std::min(columns, threads::parts_of(threads_));
  const QuantPanels weights = weights_.of(0);
  threads::run_parts(parts, threads_, [&](threads::Member& member) {
    auto* space = reinterpret_cast<float*>(workspaces[static_cast<std::size_t>(member.me())]);
    Rows rows(*this, buffers, space);
    while (const auto part = member.next())
      multiply_columns(weights, rows, columns * *part / parts * step,
                       std::min(n_, columns * (*part + 1) / parts * step),
                       space + 2 * kQuantColumns);
  });
}

}  // namespace sinter::runtime::cpu
