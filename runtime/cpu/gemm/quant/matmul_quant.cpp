// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/quant/matmul_quant.h"

#include <algorithm>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/panel_ops.h"
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
  if (quantization.panels)
    take(plan, step);
  else
    pack(plan, step, weights);
  rounded_ = {rows_, k_, quantization.activations == 0 ? 0 : quantization.block};
  const double multiplications =
      static_cast<double>(rows_) * static_cast<double>(n_) * static_cast<double>(k_);
  threads_ = threads_for(multiplications, threads);
  if (rounded_.block > 0) {
    workspace_floats_ = static_cast<std::size_t>(
        2 * kQuantColumns +
        std::max(std::min(rows_, kQuantBlockRows) * kQuantPartColumns, rounded_up_to(k_, 16)));
    return;
  }
  workspace_floats_ = 2 * kQuantColumns + quant_workspace_floats(rows_, k_);
}

void MatmulQuant::pack(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
                       PackedWeights& weights) {
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
  source.zero = quantization.zero;
  packed_ = QuantWeights(plan.meta, source, weights);
  weights_ = packed_.panels();
}

void MatmulQuant::take(const plan::PlanData& plan, const plan::fb::MatmulStepT& step) {
  const plan::fb::QuantizationT& quantization = *step.quantization;
  const auto type_of = [&](std::int64_t buffer) {
    return static_cast<DType>(plan.meta.buffers[static_cast<std::size_t>(buffer)]->dtype);
  };
  weights_.bits = quantization.bits;
  weights_.are_bfloat16 = static_cast<DType>(step.b->dtype) == DType::kBFloat16;
  weights_.has_numbers = !quantization.numbers.empty();
  if (weights_.has_numbers) std::ranges::copy(quantization.numbers, weights_.numbers.begin());
  weights_.zero = quantization.zero;
  weights_.k = k_;
  weights_.group = std::min<std::int64_t>(static_cast<std::int64_t>(quantization.group),
                                          std::max<std::int64_t>(k_, 1));
  const plan::QuantPanelShape panels{quantization.bits, n_, k_, weights_.group};
  weights_.groups = panels.groups();
  weights_.panel_bytes = panels.panel_bytes();
  in_plan_ = {step.b->buffer, quantization.scales, quantization.zero_points, quantization.offsets};
  in_plan_.scales_are_halves = type_of(in_plan_.scales) == DType::kFloat16;
  if (in_plan_.offsets >= 0)
    in_plan_.offsets_are_halves = type_of(in_plan_.offsets) == DType::kFloat16;
  if (in_plan_.zeros >= 0) in_plan_.zeros_are_floats = type_of(in_plan_.zeros) == DType::kFloat32;
}

QuantPanels MatmulQuant::panels(std::span<std::byte* const> buffers) const {
  QuantPanels result = weights_;
  if (in_plan_.values < 0) return result;
  const auto at = [&](std::int64_t buffer) { return buffers[static_cast<std::size_t>(buffer)]; };
  const auto floats = [&](std::int64_t buffer, bool are_halves) {
    PanelFloats found;
    if (are_halves)
      found.halves = reinterpret_cast<const std::uint16_t*>(at(buffer));
    else
      found.words = reinterpret_cast<const float*>(at(buffer));
    return found;
  };
  result.values = at(in_plan_.values);
  result.scales = floats(in_plan_.scales, in_plan_.scales_are_halves);
  if (in_plan_.offsets >= 0) result.offsets = floats(in_plan_.offsets, in_plan_.offsets_are_halves);
  if (in_plan_.zeros >= 0 && in_plan_.zeros_are_floats)
    result.float_zeros = reinterpret_cast<const float*>(at(in_plan_.zeros));
  else if (in_plan_.zeros >= 0)
    result.zeros = reinterpret_cast<const std::int8_t*>(at(in_plan_.zeros));
  return result;
}

/// One thread's work: columns [first, last) of the result.
class MatmulQuant::Worker {
 public:
  /// `shared`: memory of the rounded rows.
  Worker(const MatmulQuant& product, std::span<std::byte* const> buffers, std::byte* shared,
         std::byte* workspace)
      : p_(product),
        weights_(product.panels(buffers)),
        buffers_(buffers),
        shared_(shared),
        free_(reinterpret_cast<float*>(workspace + product.rounded_.bytes())) {}

  /// Rounds rows [first, last) of x.
  void round(std::int64_t first, std::int64_t last) {
    float* space = take(rounded_up_to(p_.k_, 16));
    for (std::int64_t m = first; m < last; ++m)
      p_.rounded_.round(shared_, m, this->x(m, 0, p_.k_, space));
  }

  void multiply(std::int64_t first, std::int64_t last) {
    bias_ = take(kQuantColumns);
    row_ = take(kQuantColumns);
    if (p_.rounded_.block > 0)
      multiply_rounded(weights_, p_.rounded_.at(shared_), 0, *this, first, last,
                       take(std::min(p_.rows_, kQuantBlockRows) * kQuantPartColumns));
    else
      multiply_columns(weights_, *this, first, last, free_);
  }

  // What multiply_columns() asks.

  std::int64_t count() const { return p_.rows_; }

  /// Row `row` of x from column `begin` on: in place, or as floats in `space`.
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

  /// Applies the epilogue to columns [n, n + count) of a row and stores them.
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
  float* take(std::int64_t count) {
    float* result = free_;
    free_ += count;
    return result;
  }

  const MatmulQuant& p_;
  const QuantPanels weights_;
  std::span<std::byte* const> buffers_;
  std::byte* shared_;
  float* free_;
  float *bias_ = nullptr, *row_ = nullptr;
};

void MatmulQuant::round_rows(std::span<std::byte* const> buffers,
                             std::span<std::byte* const> workspaces) const {
  const auto round = [&](int thread, std::int64_t first, std::int64_t last) {
    Worker(*this, buffers, workspaces[0], workspaces[static_cast<std::size_t>(thread)])
        .round(first, last);
  };
  const int team =
      threads::team_for(static_cast<double>(rows_ * k_) / kRoundedPerNanosecond, threads_);
  const std::int64_t parts = std::min(rows_, threads::parts_of(team));
  threads::run_parts(parts, team, [&](threads::Member& member) {
    while (const auto part = member.next())
      round(member.me(), rows_ * *part / parts, rows_ * (*part + 1) / parts);
  });
}

void MatmulQuant::run(std::span<std::byte* const> buffers,
                      std::span<std::byte* const> workspaces) const {
  if (rows_ == 0 || n_ == 0) return;
  if (rounded_.block > 0) round_rows(buffers, workspaces);
  // Parts are multiples of `step`, so a column's result does not depend on its part.
  const std::int64_t step = rounded_.block > 0 ? kQuantPartColumns : quant_part_columns(rows_);
  const std::int64_t columns = rounded_up_to(n_, step) / step;
  const std::int64_t parts = std::min(columns, threads::parts_of(threads_));
  threads::run_parts(parts, threads_, [&](threads::Member& member) {
    while (const auto part = member.next())
      Worker(*this, buffers, workspaces[0], workspaces[static_cast<std::size_t>(member.me())])
          .multiply(columns * *part / parts * step,
                    std::min(n_, columns * (*part + 1) / parts * step));
  });
}

}  // namespace sinter::runtime::cpu
