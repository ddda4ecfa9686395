// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/matmul_quant.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

// A block of dequantized weights and its accumulators fit a core's private cache.
constexpr std::int64_t kBlockColumns = kQuantColumns, kBlockDepth = 256, kBlockRows = 256;
/// Threads take multiples of this number of columns; also the block width of the direct method.
constexpr std::int64_t kPartColumns = 32;
/// Above this number of rows, it is faster to dequantize blocks of weights once than for every few
/// rows.
constexpr std::int64_t kMostRowsDirectly = 6;
static_assert(kMostRowsDirectly >= kQuantRows - 1);

/// Packs elements [n, groups] as [panel, group, row]; pads the last panel with zero rows.
template <typename T>
void write_group_panels(const T* from, std::int64_t n, std::int64_t groups, T* to) {
  for (std::int64_t first = 0; first < n; first += kPanelStep)
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t r = first; r < first + kPanelStep; ++r)
        *to++ = r < n ? from[r * groups + g] : T{0};
}

/// Loads scales of any type as float32; u8 is e8m0, a biased exponent (2^(x - 127)).
void load_scales(DType type, const std::byte* from, std::span<float> to) {
  if (type != DType::kUInt8) return load_floats(type, from, 1, std::ssize(to), to.data());
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto code = std::to_integer<std::uint32_t>(from[i]);
    // e8m0: 2^-127 is a subnormal float; 255 is NaN.
    to[i] = std::bit_cast<float>(code == 0 ? 1U << 22 : code == 255 ? 0x7fc00000U : code << 23);
  }
}

}  // namespace

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
  weights_.bits = quantization.bits;
  weights_.has_numbers = !quantization.numbers.empty();
  if (weights_.has_numbers) std::ranges::copy(quantization.numbers, weights_.numbers.begin());
  weights_.k = k_;
  weights_.group = std::min<std::int64_t>(static_cast<std::int64_t>(quantization.group),
                                          std::max<std::int64_t>(k_, 1));
  weights_.groups = rounded_up_to(k_, weights_.group) / weights_.group;
  weights_.pitch = quantization.bits == 8 ? k_ : k_ / 2 + k_ % 2;
  pack(plan, step, shape, weights);
  direct_ = rows_ <= kMostRowsDirectly;
  const double multiplications =
      static_cast<double>(rows_) * static_cast<double>(n_) * static_cast<double>(k_);
  threads_ = threads_for(multiplications, threads);
  const std::int64_t block_rows = std::min(rows_, kBlockRows), depth = std::min(k_, kBlockDepth);
  const std::int64_t converted = takes_floats(a_) ? 0 : block_rows * depth;
  workspace_floats_ = static_cast<std::size_t>(
      2 * kBlockColumns + (direct_ ? rows_ * (rounded_up_to(k_, 16) + kPartColumns)
                                   : kBlockColumns * (depth + block_rows) + converted));
}

void MatmulQuant::pack(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
                       const BoundShape& shape, PackedWeights& weights) {
  const auto place_of = [&](std::uint32_t index) {
    const auto& buffer = *plan.meta.buffers[index];
    return weights.place_of(plan.weight(buffer, shape.bytes_of(buffer)).data());
  };
  const auto type_of = [&](std::uint32_t index) {
    return static_cast<DType>(plan.meta.buffers[index]->dtype);
  };
  const auto rows = static_cast<std::size_t>(rounded_up_to(n_, kPanelStep)),
             groups = static_cast<std::size_t>(weights_.groups);
  const auto address = [](const auto& entry) { return entry->memory.get_data_handle(); };
  values_ =
      copied(weights, step.b->buffer, "panels", rows * static_cast<std::size_t>(weights_.pitch),
             [place = place_of(step.b->buffer), n = n_, pitch = weights_.pitch](
                 const std::byte* section, std::byte* to) {
               write_panels(section + place, n, pitch, to);
             });
  weights_.values = static_cast<const std::byte*>(address(values_));
  // Values times `unit` and, unless -1, the factor of each row.
  const auto float_panels = [&](std::uint32_t buffer, std::int64_t factors, float unit) {
    std::string layout = "panels of float32";
    if (factors >= 0) layout += " times " + std::to_string(factors);
    if (unit != 1) layout += " of units of " + std::to_string(unit);
    const auto of_rows =
        factors < 0 ? std::optional<std::size_t>() : place_of(static_cast<std::uint32_t>(factors));
    return copied(
        weights, buffer, layout, rows * groups * sizeof(float),
        [place = place_of(buffer), type = type_of(buffer), n = n_, unit, of_rows,
         groups = weights_.groups](const std::byte* section, std::byte* to) {
          std::vector<float> floats(static_cast<std::size_t>(n * groups));
          load_scales(type, section + place, floats);
          const auto* rows = of_rows ? reinterpret_cast<const float*>(section + *of_rows) : nullptr;
          for (std::int64_t i = 0; i < n * groups; ++i)
            floats[static_cast<std::size_t>(i)] *= unit * (rows == nullptr ? 1 : rows[i / groups]);
          write_group_panels(floats.data(), n, groups, reinterpret_cast<float*>(to));
        });
  };
  scales_ = float_panels(step.quantization->scales, step.quantization->factors,
                         weights_.has_numbers ? step.quantization->unit : 1);
  weights_.scales = static_cast<const float*>(address(scales_));
  if (step.quantization->offsets >= 0) {
    offsets_ = float_panels(static_cast<std::uint32_t>(step.quantization->offsets), -1, 1);
    weights_.offsets = static_cast<const float*>(address(offsets_));
  }
  if (step.quantization->zero_points < 0) return;
  const auto zeros = static_cast<std::uint32_t>(step.quantization->zero_points);
  if (type_of(zeros) == DType::kFloat32) {
    zeros_ = float_panels(zeros, -1, 1);
    weights_.float_zeros = static_cast<const float*>(address(zeros_));
    return;
  }
  zeros_ = copied(weights, zeros, "panels", rows * groups,
                  [place = place_of(zeros), n = n_, count = weights_.groups](
                      const std::byte* section, std::byte* to) {
                    write_group_panels(reinterpret_cast<const std::int8_t*>(section + place), n,
                                       count, reinterpret_cast<std::int8_t*>(to));
                  });
  weights_.zeros = static_cast<const std::int8_t*>(address(zeros_));
}

/// One thread's work: columns [first, last) of the result.
class MatmulQuant::Worker {
 public:
  Worker(const MatmulQuant& product, std::span<std::byte* const> buffers, std::byte* workspace)
      : p_(product), buffers_(buffers), free_(reinterpret_cast<float*>(workspace)) {}

  void multiply(std::int64_t first, std::int64_t last) {
    bias_ = take(kBlockColumns);
    row_ = take(kBlockColumns);
    if (p_.direct_)
      directly(first, last);
    else
      by_blocks(first, last);
  }

 private:
  float* take(std::int64_t count) {
    float* result = free_;
    free_ += count;
    return result;
  }

  /// Row `row` of x from column `begin` on: in place, or as floats in `space`.
  const float* x_row(std::int64_t row, std::int64_t begin, std::int64_t end, float* space) const {
    const Operand& a = p_.a_;
    const std::byte* from =
        buffers_[a.buffer] + (a.rows[static_cast<std::size_t>(row)] + begin * a.step) *
                                 static_cast<std::int64_t>(size_of(a.dtype));
    if (takes_floats(a)) return reinterpret_cast<const float*>(from);
    load_floats(a.dtype, from, a.step, end - begin, space);
    return space;
  }

  void directly(std::int64_t first, std::int64_t last) {
    const float* x[kMostRowsDirectly] = {};
    for (std::int64_t m = 0; m < p_.rows_; ++m)
      x[m] = x_row(m, 0, p_.k_, take(rounded_up_to(p_.k_, 16)));
    float* sums = take(p_.rows_ * kPartColumns);
    for (std::int64_t n = first; n < last; n += kPartColumns) {
      const std::int64_t count = std::min(kPartColumns, last - n);
      for (std::int64_t c = 0; c < count; c += kPanelStep)
        dot_quantized(p_.weights_, (n + c) / kPanelStep, x, p_.rows_, sums + c, kPartColumns);
      load_bias(n, count);
      for (std::int64_t m = 0; m < p_.rows_; ++m) finish(m, n, count, sums + m * kPartColumns);
    }
  }

  void by_blocks(std::int64_t first, std::int64_t last) {
    const std::int64_t most = std::min(p_.rows_, kBlockRows), depth = std::min(p_.k_, kBlockDepth);
    float *panel = take(kBlockColumns * depth), *sums = take(kBlockColumns * most), *space = free_;
    for (std::int64_t n = first; n < last; n += kBlockColumns) {
      const std::int64_t count = std::min(kBlockColumns, last - n);
      load_bias(n, count);
      for (std::int64_t m = 0; m < p_.rows_;) {
        const std::int64_t rows = block_rows(p_.rows_ - m);
        std::fill_n(sums, rows * kBlockColumns, 0.0F);
        for (std::int64_t k = 0; k < p_.k_; k += depth) {
          const std::int64_t end = std::min(k + depth, p_.k_);
          const float* x[kBlockRows];
          for (std::int64_t r = 0; r < rows; ++r) x[r] = x_row(m + r, k, end, space + r * depth);
          multiply_quantized(p_.weights_, n / kPanelStep, rounded_up_to(count, kPanelStep), k, end,
                             x, rows, sums, kBlockColumns, panel);
        }
        for (std::int64_t r = 0; r < rows; ++r) finish(m + r, n, count, sums + r * kBlockColumns);
        m += rows;
      }
    }
  }

  /// Rows of the next block out of `left`; leaves at least kQuantRows, or none, for the last one.
  static std::int64_t block_rows(std::int64_t left) {
    if (left <= kBlockRows) return left;
    return left - kBlockRows < kQuantRows ? kBlockRows - kQuantRows : kBlockRows;
  }

  void load_bias(std::int64_t n, std::int64_t count) {
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

  const MatmulQuant& p_;
  std::span<std::byte* const> buffers_;
  float* free_;
  float *bias_ = nullptr, *row_ = nullptr;
};

void MatmulQuant::run(std::span<std::byte* const> buffers,
                      std::span<std::byte* const> workspaces) const {
  if (rows_ == 0 || n_ == 0) return;
  // Parts are multiples of `step`, so a column's result does not depend on its part.
  const std::int64_t step = direct_ ? kPartColumns : kBlockColumns;
  const std::int64_t columns = rounded_up_to(n_, step) / step;
  const std::int64_t parts = std::min(columns, threads::parts_of(threads_));
  threads::run_parts(parts, threads_, [&](threads::Member& member) {
    while (const auto part = member.next())
      Worker(*this, buffers, workspaces[static_cast<std::size_t>(member.me())])
          .multiply(columns * *part / parts * step,
                    std::min(n_, columns * (*part + 1) / parts * step));
  });
}

}  // namespace sinter::runtime::cpu
