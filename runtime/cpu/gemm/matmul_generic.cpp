// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/matmul_generic.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include "runtime/cpu/ops/element.h"
#include "runtime/format_error.h"

namespace sinter::runtime::cpu {
namespace {

template <typename T>
T load(DType dtype, const std::byte* p) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(load_double(dtype, p));
  } else {
    return load_int(dtype, p);
  }
}

/// The operand as a dense rows x cols block of accumulators.
template <typename T>
void gather(DType dtype, const std::byte* base, std::int64_t rows, std::int64_t cols,
            std::int64_t row_stride, std::int64_t col_stride, std::vector<T>& out) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  out.resize(static_cast<std::size_t>(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      out[static_cast<std::size_t>(r * cols + c)] =
          load<T>(dtype, base + (r * row_stride + c * col_stride) * size);
}

double activate(double x, plan::fb::Activation activation) {
  using plan::fb::Activation;
  switch (activation) {
    case Activation::None: return x;
    case Activation::Relu: return x > 0 || std::isnan(x) ? x : 0;
    case Activation::GeluErf: return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
    case Activation::GeluTanh:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    default: return x;  // of convolutions alone: the reader refuses it
  }
}

}  // namespace

std::int64_t MatmulGeneric::Operand::start(std::span<const std::int64_t> index) const {
  std::int64_t position = offset;
  for (std::size_t i = 0; i < index.size(); ++i) position += index[i] * batch_strides[i];
  return position * static_cast<std::int64_t>(size_of(dtype));
}

MatmulGeneric::MatmulGeneric(const plan::PlanData&, const plan::fb::MatmulStepT& step,
                             const BoundShape& shape) {
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
}

template <typename Accumulator>
void MatmulGeneric::run(std::span<std::byte* const> buffers, Scratch<Accumulator>& scratch) {
  auto& [a, b, row] = scratch;
  row.resize(static_cast<std::size_t>(n_));
  std::vector<std::int64_t>& index = index_;
  index.resize(batch_.size());
  for (std::int64_t batch = 0; batch < batches_; ++batch) {
    for (std::int64_t rest = batch, i = std::ssize(batch_); i-- > 0;
         rest /= batch_[static_cast<std::size_t>(i)])
      index[static_cast<std::size_t>(i)] = rest % batch_[static_cast<std::size_t>(i)];
    gather(a_.dtype, buffers[a_.buffer] + a_.start(index), m_, k_, a_.row_stride, a_.col_stride, a);
    gather(b_.dtype, buffers[b_.buffer] + b_.start(index), k_, n_, b_.row_stride, b_.col_stride, b);
    std::byte* d = buffers[d_.buffer] + d_.start(index);
    const std::byte* c =
        has_residual_ ? buffers[residual_.buffer] + residual_.start(index) : nullptr;
    for (std::int64_t r = 0; r < m_; ++r) {
      std::ranges::fill(row, Accumulator{0});
      for (std::int64_t i = 0; i < k_; ++i) {
        const Accumulator factor = a[static_cast<std::size_t>(r * k_ + i)];
        const Accumulator* source = b.data() + i * n_;
        for (std::int64_t j = 0; j < n_; ++j)
          row[static_cast<std::size_t>(j)] += factor * source[j];
      }
      for (std::int64_t j = 0; j < n_; ++j) {
        Accumulator value = row[static_cast<std::size_t>(j)];
        if constexpr (std::is_floating_point_v<Accumulator>) value *= alpha_;
        if (bias_ >= 0)
          value +=
              load<Accumulator>(d_.dtype, buffers[static_cast<std::size_t>(bias_)] +
                                              j * static_cast<std::int64_t>(size_of(d_.dtype)));
        if (c != nullptr)
          value += load<Accumulator>(residual_.dtype,
                                     c + (r * residual_.row_stride + j * residual_.col_stride) *
                                             static_cast<std::int64_t>(size_of(residual_.dtype)));
        std::byte* target = d + (r * d_.row_stride + j * d_.col_stride) *
                                    static_cast<std::int64_t>(size_of(d_.dtype));
        if constexpr (std::is_floating_point_v<Accumulator>) {
          store_double(d_.dtype, target, activate(value, activation_));
        } else {
          store_int(d_.dtype, target, static_cast<std::int64_t>(value));
        }
      }
    }
  }
}

void MatmulGeneric::execute(std::span<std::byte* const> buffers) {
  if (is_float(d_.dtype)) {
    run(buffers, floats_);
  } else {
    run(buffers, integers_);  // wraps, as integer products do
  }
}

}  // namespace sinter::runtime::cpu
