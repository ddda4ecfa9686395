// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/matmul_generic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/format_error.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

/// Blocking: kColumns of a panel of b; kDepth of its rows, which stay in the L1 cache; and kRows of
/// a that use them.
constexpr std::int64_t kColumns = 32, kDepth = 64, kRows = 48;

std::int64_t panels_of(std::int64_t n) { return rounded_up_to(n, kColumns) / kColumns; }

template <typename T>
T load(DType dtype, const std::byte* p) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(load_double(dtype, p));
  } else {
    return static_cast<T>(load_int(dtype, p));
  }
}

/// Copies elements with stride `step` to contiguous memory.
template <typename T>
void copy_elements(DType dtype, const std::byte* from, std::int64_t step, std::int64_t count,
                   T* to) {
  if (dtype == DType::kFloat64 && std::is_same_v<T, double>) {
    const auto* source = reinterpret_cast<const T*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = source[i * step];
    return;
  }
  if constexpr (std::is_integral_v<T>) {
    const bool is_copied = with_number_type(dtype, [&](auto kind) {
      using From = decltype(kind);
      if constexpr (std::is_integral_v<From>) {
        const auto* source = reinterpret_cast<const From*>(from);
        for (std::int64_t i = 0; i < count; ++i)
          to[i] = static_cast<T>(static_cast<std::int64_t>(source[i * step]));
      }
      return std::is_integral_v<From>;
    });
    if (is_copied) return;
  }
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) to[i] = load<T>(dtype, from + i * step * size);
}

double activate(double x, plan::fb::Activation activation) {
  using plan::fb::Activation;
  switch (activation) {
    case Activation::None: return x;
    case Activation::Relu: return x > 0 || std::isnan(x) ? x : 0;
    case Activation::GeluErf: return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
    case Activation::GeluTanh:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    default: return x;  // convolution-only activations: the reader refuses them here
  }
}

}  // namespace

std::byte* MatmulGeneric::Operand::at(std::span<std::byte* const> buffers,
                                      std::span<const std::int64_t> index) const {
  std::int64_t position = offset;
  for (std::size_t i = 0; i < index.size(); ++i) position += index[i] * batch_strides[i];
  return buffers[buffer] + position * static_cast<std::int64_t>(size_of(dtype));
}

MatmulGeneric::MatmulGeneric(const plan::PlanData&, const plan::fb::MatmulStepT& step,
                             const BoundShape& shape, int threads) {
  const auto& values = shape.expressions;
  const auto operand = [&](const plan::fb::MatrixT& matrix) {
    Operand result{matrix.buffer,
                   static_cast<DType>(matrix.dtype),
                   values[matrix.offset],
                   values[matrix.row_stride],
                   values[matrix.col_stride],
                   {}};
    for (const auto stride : matrix.batch_strides) result.batch_strides.push_back(values[stride]);
    return result;
  };
  m_ = values[step.m];
  n_ = values[step.n];
  k_ = values[step.k];
  for (const auto size : step.batch) batches_ *= batch_.emplace_back(values[size]);
  a_ = operand(*step.a);
  b_ = operand(*step.b);
  d_ = operand(*step.d);
  if (step.residual) {
    residual_ = operand(*step.residual);
    has_residual_ = true;
  }
  bias_ = step.bias;
  alpha_ = step.alpha;
  activation_ = step.activation;
  const bool plain = alpha_ == 1 && activation_ == plan::fb::Activation::None;
  if (is_float(a_.dtype) != is_float(b_.dtype) || is_float(a_.dtype) != is_float(d_.dtype) ||
      (!is_float(a_.dtype) && !plain))
    throw unsupported_error("a matrix product of {} and {} into {}", to_string(a_.dtype),
                            to_string(b_.dtype), to_string(d_.dtype));
  if (m_ == 0 || n_ == 0 || batches_ == 0) return;
  threads_ =
      threads_for(static_cast<double>(batches_) * static_cast<double>(m_) *
                      static_cast<double>(n_) * static_cast<double>(std::max<std::int64_t>(k_, 1)),
                  threads);
  batch_by_thread_ = batches_ >= threads_;
  if (!is_float(d_.dtype)) {
    if (size_of(d_.dtype) <= sizeof(std::uint32_t))
      scratches_.emplace<Scratches<std::uint32_t>>();
    else
      scratches_.emplace<Scratches<std::uint64_t>>();
  }
  std::visit(
      [&](auto& scratches) {
        scratches.resize(static_cast<std::size_t>(threads_));
        for (auto& scratch : scratches) {
          if (batch_by_thread_ || &scratch == scratches.data())
            scratch.panels.resize(static_cast<std::size_t>(panels_of(n_) * kColumns * k_));
          scratch.rows.resize(static_cast<std::size_t>(kRows * k_));
          scratch.sums.resize(kRows * kColumns);
          scratch.index.resize(batch_.size());
        }
      },
      scratches_);
}

std::uint64_t MatmulGeneric::own_bytes() const {
  return std::visit(
      [](const auto& scratches) {
        std::uint64_t bytes = 0;
        for (const auto& scratch : scratches)
          bytes += (scratch.panels.size() + scratch.rows.size() + scratch.sums.size()) *
                   sizeof(scratch.sums[0]);
        return bytes;
      },
      scratches_);
}

void MatmulGeneric::find_index(std::int64_t batch, std::vector<std::int64_t>& index) const {
  for (std::size_t i = batch_.size(); i-- > 0; batch /= batch_[i]) index[i] = batch % batch_[i];
}

/// Packs panels of b; pads the last one with zero columns.
template <typename T>
void MatmulGeneric::pack(const std::byte* b, std::int64_t panel, std::int64_t panels, T* to) const {
  const auto size = static_cast<std::int64_t>(size_of(b_.dtype));
  for (std::int64_t p = panel; p < panel + panels; ++p) {
    const std::int64_t first = p * kColumns, count = std::min(kColumns, n_ - first);
    T* target = to + first * k_;
    if (b_.col_stride == 1 || b_.row_stride != 1) {
      for (std::int64_t i = 0; i < k_; ++i, target += kColumns) {
        copy_elements(b_.dtype, b + (i * b_.row_stride + first * b_.col_stride) * size,
                      b_.col_stride, count, target);
        std::fill_n(target + count, kColumns - count, T{0});
      }
      continue;
    }
    if (count < kColumns) std::fill_n(target, kColumns * k_, T{0});
    constexpr std::int64_t kAtOnce = 64;  // rows of a column, to read whole cache lines
    std::array<T, kAtOnce> column;
    for (std::int64_t i = 0; i < k_; i += kAtOnce) {
      const std::int64_t rows = std::min(kAtOnce, k_ - i);
      for (std::int64_t c = 0; c < count; ++c) {
        copy_elements(b_.dtype, b + (i + (first + c) * b_.col_stride) * size, 1, rows,
                      column.data());
        for (std::int64_t r = 0; r < rows; ++r)
          target[(i + r) * kColumns + c] = column[static_cast<std::size_t>(r)];
      }
    }
  }
}

template <typename T>
void MatmulGeneric::multiply(std::span<std::byte* const> buffers,
                             std::span<const std::int64_t> index, const Block& block,
                             const T* panels, Scratch<T>& scratch) const {
  const std::byte* a = a_.at(buffers, index);
  const auto size = static_cast<std::int64_t>(size_of(a_.dtype));
  const bool as_it_lies =
      a_.dtype == DType::kFloat64 && std::is_same_v<T, double> && a_.col_stride == 1;
  for (std::int64_t row = block.row; row < block.row + block.rows; row += kRows) {
    const std::int64_t rows = std::min(kRows, block.row + block.rows - row);
    std::array<const T*, kRows> x;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::byte* from = a + (row + r) * a_.row_stride * size;
      T* copy = scratch.rows.data() + r * k_;
      if (!as_it_lies) copy_elements(a_.dtype, from, a_.col_stride, k_, copy);
      x[static_cast<std::size_t>(r)] = as_it_lies ? reinterpret_cast<const T*>(from) : copy;
    }
    for (std::int64_t p = block.panel; p < block.panel + block.panels; ++p) {
      std::ranges::fill(scratch.sums, T{0});
      const T* panel = panels + p * kColumns * k_;
      for (std::int64_t i = 0; i < k_; i += kDepth) {
        std::array<const T*, kRows> at;
        for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) at[r] = x[r] + i;
        add_products(at.data(), rows, panel + i * kColumns, kColumns, kColumns,
                     std::min(kDepth, k_ - i), scratch.sums.data(), kColumns);
      }
      finish(buffers, index, {row, rows, p, 1}, scratch.sums.data());
    }
  }
}

/// Applies the epilogue to one panel's sums and stores them.
template <typename T>
void MatmulGeneric::finish(std::span<std::byte* const> buffers, std::span<const std::int64_t> index,
                           const Block& block, const T* sums) const {
  const std::int64_t first = block.panel * kColumns, count = std::min(kColumns, n_ - first);
  const auto size = static_cast<std::int64_t>(size_of(d_.dtype));
  std::byte* const d = d_.at(buffers, index);
  const bool plain =
      bias_ < 0 && !has_residual_ && alpha_ == 1 && activation_ == plan::fb::Activation::None;
  for (std::int64_t r = 0; r < block.rows; ++r, sums += kColumns) {
    const std::int64_t row = block.row + r;
    if (plain && d_.col_stride == 1 && d_.dtype == DType::kFloat64 && std::is_same_v<T, double>) {
      std::copy_n(sums, count, reinterpret_cast<T*>(d) + row * d_.row_stride + first);
      continue;
    }
    for (std::int64_t c = 0; c < count; ++c) {
      T value = sums[c];
      const std::int64_t column = first + c;
      if constexpr (std::is_floating_point_v<T>) value *= alpha_;
      if (bias_ >= 0)
        value += load<T>(d_.dtype, buffers[static_cast<std::size_t>(bias_)] + column * size);
      if (has_residual_)
        value += load<T>(residual_.dtype,
                         residual_.at(buffers, index) +
                             (row * residual_.row_stride + column * residual_.col_stride) *
                                 static_cast<std::int64_t>(size_of(residual_.dtype)));
      std::byte* const target = d + (row * d_.row_stride + column * d_.col_stride) * size;
      if constexpr (std::is_floating_point_v<T>) {
        store_double(d_.dtype, target, activate(value, activation_));
      } else {
        store_int(d_.dtype, target, static_cast<std::int64_t>(value));
      }
    }
  }
}

template <typename T>
void MatmulGeneric::run(std::span<std::byte* const> buffers, Scratches<T>& scratches) const {
  const std::int64_t panels = panels_of(n_);
  const auto scratch_of = [&](const threads::Member& member) -> Scratch<T>& {
    return scratches[static_cast<std::size_t>(member.me())];
  };
  if (batch_by_thread_) {
    const std::int64_t parts = std::min(batches_, threads::parts_of(threads_));
    threads::run_parts(parts, threads_, [&](threads::Member& member) {
      Scratch<T>& own = scratch_of(member);
      while (const auto part = member.next())
        for (std::int64_t i = batches_ * *part / parts; i < batches_ * (*part + 1) / parts; ++i) {
          find_index(i, own.index);
          pack(b_.at(buffers, own.index), 0, panels, own.panels.data());
          multiply(buffers, own.index, {0, m_, 0, panels}, own.panels.data(), own);
        }
    });
    return;
  }
  // All threads share the packed panels. Splits rows first, because each part copies its own rows
  // of a.
  const std::int64_t wanted = threads::parts_of(threads_), row_blocks = (m_ + kRows - 1) / kRows,
                     row_parts = std::min(row_blocks, wanted),
                     column_parts = std::clamp<std::int64_t>(wanted / row_parts, 1, panels);
  for (std::int64_t i = 0; i < batches_; ++i) {
    std::vector<std::int64_t>& index = scratches[0].index;
    T* const packed = scratches[0].panels.data();
    find_index(i, index);
    const std::byte* b = b_.at(buffers, index);
    threads::run_parts(panels, threads_, [&](threads::Member& member) {
      while (const auto panel = member.next()) pack(b, *panel, 1, packed);
    });
    threads::run_parts(row_parts * column_parts, threads_, [&](threads::Member& member) {
      while (const auto part = member.next()) {
        const std::int64_t r = *part / column_parts, c = *part % column_parts;
        const std::int64_t row = row_blocks * r / row_parts * kRows,
                           panel = panels * c / column_parts;
        multiply(buffers, index,
                 {row, std::min(m_, row_blocks * (r + 1) / row_parts * kRows) - row, panel,
                  panels * (c + 1) / column_parts - panel},
                 packed, scratch_of(member));
      }
    });
  }
}

void MatmulGeneric::execute(std::span<std::byte* const> buffers) {
  if (m_ == 0 || n_ == 0 || batches_ == 0) return;
  std::visit([&](auto& scratches) { run(buffers, scratches); }, scratches_);
}

}  // namespace sinter::runtime::cpu
