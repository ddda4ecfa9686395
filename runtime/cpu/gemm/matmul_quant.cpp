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

constexpr std::size_t kLine = 64;

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
  weights_.zero = quantization.zero;
  weights_.k = k_;
  weights_.group = std::min<std::int64_t>(static_cast<std::int64_t>(quantization.group),
                                          std::max<std::int64_t>(k_, 1));
  const plan::QuantPanelShape panels{quantization.bits, n_, k_, weights_.group};
  weights_.groups = panels.groups();
  weights_.panel_bytes = panels.panel_bytes();
  if (quantization.panels)
    take(plan, step);
  else
    pack(plan, step, shape, panels, weights);
  block_ = quantization.activations == 0 ? 0 : quantization.block;
  direct_ = block_ == 0 && rows_ <= kMostRowsDirectly;
  const double multiplications =
      static_cast<double>(rows_) * static_cast<double>(n_) * static_cast<double>(k_);
  threads_ = threads_for(multiplications, threads);
  const std::int64_t block_rows = std::min(rows_, kBlockRows), depth = std::min(k_, kBlockDepth);
  if (block_ > 0) {
    const std::int64_t blocks = rounded_up_to(k_, block_) / block_;
    const auto all = static_cast<std::size_t>(rows_ * blocks);
    rounded_bytes_ =
        all * (static_cast<std::size_t>(block_) + sizeof(float) + sizeof(std::int32_t));
    rounded_bytes_ = (rounded_bytes_ + kLine - 1) / kLine * kLine;
    workspace_floats_ = static_cast<std::size_t>(
        2 * kBlockColumns + std::max(block_rows * kPartColumns, rounded_up_to(k_, 16)));
    return;
  }
  const std::int64_t converted = takes_floats(a_) ? 0 : block_rows * depth;
  workspace_floats_ = static_cast<std::size_t>(
      2 * kBlockColumns + (direct_ ? rows_ * (rounded_up_to(k_, 16) + kPartColumns)
                                   : kBlockColumns * (depth + block_rows) + converted));
}

void MatmulQuant::take(const plan::PlanData& plan, const plan::fb::MatmulStepT& step) {
  const plan::fb::QuantizationT& quantization = *step.quantization;
  const auto type_of = [&](std::int64_t buffer) {
    return static_cast<DType>(plan.meta.buffers[static_cast<std::size_t>(buffer)]->dtype);
  };
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

void MatmulQuant::pack(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
                       const BoundShape& shape, const plan::QuantPanelShape& panels,
                       PackedWeights& weights) {
  const auto place_of = [&](std::uint32_t index) {
    const auto& buffer = *plan.meta.buffers[index];
    return weights.place_of(plan.weight(buffer, shape.bytes_of(buffer)).data());
  };
  const auto type_of = [&](std::uint32_t index) {
    return static_cast<DType>(plan.meta.buffers[index]->dtype);
  };
  const auto count = static_cast<std::size_t>(panels.group_count());
  const auto address = [](const auto& entry) { return entry->memory.get_data_handle(); };
  values_ =
      copied(weights, step.b->buffer, "panels", static_cast<std::size_t>(panels.value_bytes()),
             [place = place_of(step.b->buffer), panels](const std::byte* section, std::byte* to) {
               for (std::int64_t p = 0; p < panels.panels(); ++p)
                 plan::write_value_panel(panels, p, section + place, to + p * panels.panel_bytes());
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
        weights, buffer, layout, count * sizeof(float),
        [place = place_of(buffer), type = type_of(buffer), panels, unit, of_rows](
            const std::byte* section, std::byte* to) {
          const std::int64_t groups = panels.groups();
          std::vector<float> floats(static_cast<std::size_t>(panels.n * groups));
          load_scales(type, section + place, floats);
          const auto* rows = of_rows ? reinterpret_cast<const float*>(section + *of_rows) : nullptr;
          for (std::int64_t i = 0; i < panels.n * groups; ++i)
            floats[static_cast<std::size_t>(i)] *= unit * (rows == nullptr ? 1 : rows[i / groups]);
          plan::write_group_panels(panels, floats.data(), reinterpret_cast<float*>(to));
        });
  };
  scales_ = float_panels(step.quantization->scales, step.quantization->factors,
                         weights_.has_numbers ? step.quantization->unit : 1);
  weights_.scales.words = static_cast<const float*>(address(scales_));
  if (step.quantization->offsets >= 0) {
    offsets_ = float_panels(static_cast<std::uint32_t>(step.quantization->offsets), -1, 1);
    weights_.offsets.words = static_cast<const float*>(address(offsets_));
  }
  if (step.quantization->zero_points < 0) return;
  const auto zeros = static_cast<std::uint32_t>(step.quantization->zero_points);
  if (type_of(zeros) == DType::kFloat32) {
    zeros_ = float_panels(zeros, -1, 1);
    weights_.float_zeros = static_cast<const float*>(address(zeros_));
    return;
  }
  zeros_ = copied(weights, zeros, "panels", count,
                  [place = place_of(zeros), panels](const std::byte* section, std::byte* to) {
                    plan::write_group_panels(panels,
                                             reinterpret_cast<const std::int8_t*>(section + place),
                                             reinterpret_cast<std::int8_t*>(to));
                  });
  weights_.zeros = static_cast<const std::int8_t*>(address(zeros_));
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
        free_(reinterpret_cast<float*>(workspace + product.rounded_bytes_)) {}

  /// Rounds rows [first, last) of x.
  void round(std::int64_t first, std::int64_t last) {
    const RoundedRows x = p_.rounded(shared_);
    float* space = take(rounded_up_to(p_.k_, 16));
    for (std::int64_t m = first; m < last; ++m)
      round_row(x_row(m, 0, p_.k_, space), p_.k_, x.block,
                const_cast<std::int8_t*>(x.codes) + m * x.pitch,
                const_cast<float*>(x.scales) + m * x.blocks,
                const_cast<std::int32_t*>(x.sums) + m * x.blocks);
  }

  void multiply(std::int64_t first, std::int64_t last) {
    bias_ = take(kBlockColumns);
    row_ = take(kBlockColumns);
    if (p_.block_ > 0)
      rounded(first, last);
    else if (p_.direct_)
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
        dot_quantized(weights_, (n + c) / kPanelStep, x, p_.rows_, sums + c, kPartColumns);
      load_bias(n, count);
      for (std::int64_t m = 0; m < p_.rows_; ++m) finish(m, n, count, sums + m * kPartColumns);
    }
  }

  void rounded(std::int64_t first, std::int64_t last) {
    const RoundedRows x = p_.rounded(shared_);
    float* sums = take(std::min(p_.rows_, kBlockRows) * kPartColumns);
    for (std::int64_t m = 0; m < p_.rows_; m += kBlockRows) {
      const std::int64_t rows = std::min(kBlockRows, p_.rows_ - m);
      for (std::int64_t n = first; n < last; n += kPartColumns) {
        const std::int64_t count = std::min(kPartColumns, last - n);
        for (std::int64_t c = 0; c < count; c += kPanelStep)
          dot_rounded(weights_, (n + c) / kPanelStep, x, m, rows, sums + c, kPartColumns);
        load_bias(n, count);
        for (std::int64_t r = 0; r < rows; ++r) finish(m + r, n, count, sums + r * kPartColumns);
      }
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
          multiply_quantized(weights_, n / kPanelStep, rounded_up_to(count, kPanelStep), k, end, x,
                             rows, sums, kBlockColumns, panel);
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
  const QuantPanels weights_;
  std::span<std::byte* const> buffers_;
  std::byte* shared_;
  float* free_;
  float *bias_ = nullptr, *row_ = nullptr;
};

RoundedRows MatmulQuant::rounded(std::byte* workspace) const {
  RoundedRows x;
  x.block = block_;
  x.blocks = rounded_up_to(k_, block_) / block_;
  x.pitch = x.blocks * block_;
  x.scales = reinterpret_cast<const float*>(workspace);
  x.sums = reinterpret_cast<const std::int32_t*>(x.scales + rows_ * x.blocks);
  x.codes = reinterpret_cast<const std::int8_t*>(x.sums + rows_ * x.blocks);
  return x;
}

void MatmulQuant::round_rows(std::span<std::byte* const> buffers,
                             std::span<std::byte* const> workspaces) const {
  const auto round = [&](int thread, std::int64_t first, std::int64_t last) {
    Worker(*this, buffers, workspaces[0], workspaces[static_cast<std::size_t>(thread)])
        .round(first, last);
  };
  // Fewer elements are rounded before other threads wake.
  constexpr std::int64_t kElementsAlone = 1 << 16;
  if (rows_ * k_ <= kElementsAlone) return round(0, 0, rows_);
  const std::int64_t parts = std::min(rows_, threads::parts_of(threads_));
  threads::run_parts(parts, threads_, [&](threads::Member& member) {
    while (const auto part = member.next())
      round(member.me(), rows_ * *part / parts, rows_ * (*part + 1) / parts);
  });
}

void MatmulQuant::run(std::span<std::byte* const> buffers,
                      std::span<std::byte* const> workspaces) const {
  if (rows_ == 0 || n_ == 0) return;
  if (block_ > 0) round_rows(buffers, workspaces);
  // Parts are multiples of `step`, so a column's result does not depend on its part.
  const std::int64_t step = direct_ || block_ > 0 ? kPartColumns : kBlockColumns;
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
