// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/matmul_panels.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/cpu/ops/quant_ops.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

/// Above this number of rows, oneDNN's kernels are faster.
constexpr std::int64_t kMostRows = 32;
/// A panel that several row tiles read must fit a core's private cache.
constexpr std::int64_t kMostDepth = 2048, kRowsOfTile = 6;
/// Bytes of weights that a thread reads in a nanosecond, where it multiplies few rows by them.
constexpr double kBytesPerNanosecond = 64;

/// Packs weights [k, n] as [panel, k, column]; pads the last panel with zero columns.
void write_panels(const float* from, std::int64_t row_stride, std::int64_t column_stride,
                  std::int64_t n, std::int64_t k, float* to) {
  for (std::int64_t first = 0; first < n; first += kPanelColumns) {
    const std::int64_t width = panel_width(n, first);
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t c = first; c < first + width; ++c)
        *to++ = c < n ? from[i * row_stride + c * column_stride] : 0.0F;
  }
}

}  // namespace

MatmulPanels::Rows MatmulPanels::rows_of(const plan::fb::MatrixT& matrix,
                                         std::span<const std::int64_t> values) {
  return {matrix.buffer, values[matrix.offset], values[matrix.row_stride]};
}

bool MatmulPanels::takes(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
                         const BoundShape& shape) {
  const auto& values = shape.expressions;
  const auto is_f32 = [](const plan::fb::MatrixT& matrix) {
    return static_cast<DType>(matrix.dtype) == DType::kFloat32;
  };
  const auto has_rows = [&](const plan::fb::MatrixT& matrix) {
    return is_f32(matrix) && values[matrix.col_stride] == 1;
  };
  const std::int64_t m = values[step.m], n = values[step.n], k = values[step.k];
  if (m < 1 || n < 1 || k < 1 || m > kMostRows || (m > kRowsOfTile && k > kMostDepth)) return false;
  if (std::ranges::any_of(step.batch, [&](auto size) { return values[size] != 1; })) return false;
  return has_rows(*step.a) && is_f32(*step.b) && has_rows(*step.d) &&
         (!step.residual || has_rows(*step.residual)) &&
         plan.meta.buffers[step.b->buffer]->kind == plan::fb::BufferKind::Weight;
}

MatmulPanels::MatmulPanels(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
                           const BoundShape& shape, PackedWeights& weights, int threads) {
  const auto& values = shape.expressions;
  m_ = values[step.m];
  n_ = values[step.n];
  k_ = values[step.k];
  a_ = rows_of(*step.a, values);
  d_ = rows_of(*step.d, values);
  has_residual_ = step.residual != nullptr;
  if (has_residual_) residual_ = rows_of(*step.residual, values);
  bias_ = step.bias;
  alpha_ = step.alpha;
  activation_ = step.activation;
  const auto& buffer = *plan.meta.buffers[step.b->buffer];
  const auto* from =
      reinterpret_cast<const float*>(plan.weight(buffer, shape.bytes_of(buffer)).data()) +
      values[step.b->offset];
  const std::int64_t row_stride = values[step.b->row_stride],
                     column_stride = values[step.b->col_stride];
  const std::int64_t elements = rounded_up_to(n_, kPanelStep) * k_;
  const std::string layout = fmt::format("panels of {} x {} at {} by {}, {}", k_, n_,
                                         values[step.b->offset], row_stride, column_stride);
  packed_ = copied(weights, step.b->buffer, layout, bytes_of(elements),
                   [place = weights.place_of(from), row_stride, column_stride, n = n_, k = k_](
                       const std::byte* section, std::byte* to) {
                     write_panels(reinterpret_cast<const float*>(section + place), row_stride,
                                  column_stride, n, k, reinterpret_cast<float*>(to));
                   });
  panels_ = static_cast<const float*>(packed_->memory.get_data_handle());
  const double bytes = 4 * static_cast<double>(elements);
  threads_ = std::max(threads_for(static_cast<double>(m_) * bytes / 4, threads),
                      threads::team_for(bytes / kBytesPerNanosecond, threads));
}

std::size_t MatmulPanels::workspace_bytes() const { return bytes_of(m_ * kPanelColumns); }

void MatmulPanels::multiply(std::int64_t panel, std::span<std::byte* const> buffers,
                            float* sums) const {
  const std::int64_t first = panel * kPanelColumns, count = std::min(kPanelColumns, n_ - first);
  const float* x[kMostRows];
  for (std::int64_t m = 0; m < m_; ++m) x[m] = a_.at(buffers, m);
  std::fill_n(sums, m_ * kPanelColumns, 0.0F);
  add_products(x, m_, panels_ + first * k_, panel_width(n_, first), panel_width(n_, first), k_,
               sums, kPanelColumns);
  const float* bias =
      bias_ < 0 ? nullptr
                : reinterpret_cast<const float*>(buffers[static_cast<std::size_t>(bias_)]) + first;
  for (std::int64_t m = 0; m < m_; ++m) {
    finish_values(sums + m * kPanelColumns, count, alpha_, bias,
                  has_residual_ ? residual_.at(buffers, m) + first : nullptr, activation_);
    std::copy_n(sums + m * kPanelColumns, count, d_.at(buffers, m) + first);
  }
}

void MatmulPanels::execute(std::span<std::byte* const> buffers,
                           std::span<std::byte* const> workspaces) {
  const std::int64_t panels = rounded_up_to(n_, kPanelColumns) / kPanelColumns;
  const std::int64_t parts = std::min(panels, threads::parts_of(threads_));
  // Reverses the order within each share, so that threads keep their parts.
  const bool backwards = backwards_;
  backwards_ = !backwards_;
  const auto place = [&](std::int64_t part) {
    if (!backwards) return part;
    const std::int64_t share = part * threads_ / parts;
    const std::int64_t begin = (share * parts + threads_ - 1) / threads_,
                       end = ((share + 1) * parts + threads_ - 1) / threads_;
    return begin + end - 1 - part;
  };
  threads::run_parts(parts, threads_, [&](threads::Member& member) {
    auto* sums = reinterpret_cast<float*>(workspaces[static_cast<std::size_t>(member.me())]);
    while (const auto part = member.next()) {
      const std::int64_t begin = panels * place(*part) / parts,
                         end = panels * (place(*part) + 1) / parts;
      for (std::int64_t i = 0; i < end - begin; ++i)
        multiply(backwards ? end - 1 - i : begin + i, buffers, sums);
    }
  });
}

}  // namespace sinter::runtime::cpu
