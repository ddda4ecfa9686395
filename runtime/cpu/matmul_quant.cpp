#include "runtime/cpu/matmul_quant.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/dnnl_support.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/panel_ops.h"
#include "runtime/cpu/parallel.h"

namespace sinter::runtime::cpu {
namespace {

// A block of weights as floats, with the sums that it adds to, is to stay in a core's own cache.
constexpr std::int64_t kBlockColumns = 64, kBlockDepth = 256, kBlockRows = 256;
/// Columns of which a thread takes a whole number, and of a block that is multiplied directly.
constexpr std::int64_t kPartColumns = 32;
/// Above so many rows it takes less time to make the weights floats than to read them for every
/// kMostDirectRows rows.
constexpr std::int64_t kMostRowsDirectly = 6;

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

/// `size` bytes that `fill` writes, one copy for a plan.
template <typename Fill>
std::shared_ptr<const PackedWeights::Entry> copied(PackedWeights& weights, std::uint32_t buffer,
                                                   const char* layout, std::size_t size,
                                                   const Fill& fill) {
  return weights.find_or_make(buffer, layout, [&] {
    auto entry = std::make_shared<PackedWeights::Entry>();
    std::byte* to = weights.allocate(size);
    fill(to);
    entry->memory = dnnl::memory({{static_cast<std::int64_t>(std::max<std::size_t>(size, 1))},
                                  dnnl::memory::data_type::u8,
                                  dnnl::memory::format_tag::a},
                                 dnnl_engine(), to);
    return entry;
  });
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
  const plan::fb::QuantisationT& quantisation = *step.quantisation;
  weights_.bits = quantisation.bits;
  weights_.k = k_;
  weights_.group = std::min<std::int64_t>(static_cast<std::int64_t>(quantisation.group),
                                          std::max<std::int64_t>(k_, 1));
  weights_.groups = rounded_up(k_, weights_.group) / weights_.group;
  weights_.pitch = quantisation.bits == 8 ? k_ : quant_half(k_);
  weight_buffer_ = step.b->buffer;
  scales_buffer_ = quantisation.scales;
  zeros_buffer_ = quantisation.zero_points;
  const auto type_of = [&](std::int64_t buffer) {
    return static_cast<DType>(plan.meta.buffers[static_cast<std::size_t>(buffer)]->dtype);
  };
  float_zeros_ = zeros_buffer_ >= 0 && type_of(zeros_buffer_) == DType::kFloat32;
  const auto bytes_of = [&](std::uint32_t index) {
    const auto& buffer = *plan.meta.buffers[index];
    return plan.weight(buffer, shape.bytes_of(buffer));
  };
  // In large pages memory is read twice as fast as from a mapped file.
  const auto numbers = bytes_of(weight_buffer_);
  values_ = copied(weights, weight_buffer_, "as they are", numbers.size(),
                   [&](std::byte* to) { std::copy(numbers.begin(), numbers.end(), to); });
  if (const DType type = type_of(scales_buffer_); type != DType::kFloat32) {
    const auto narrow = bytes_of(scales_buffer_);
    const std::size_t count = narrow.size() / size_of(type);
    scales_ = copied(weights, scales_buffer_, "float32", count * sizeof(float), [&](std::byte* to) {
      load_floats(type, narrow.data(), 1, static_cast<std::int64_t>(count),
                  reinterpret_cast<float*>(to));
    });
  }
  direct_ = rows_ <= kMostRowsDirectly && dots_directly(weights_);
  const double multiplications =
      static_cast<double>(rows_) * static_cast<double>(n_) * static_cast<double>(k_);
  threads_ = std::min(threads, threads_for(multiplications));
  const std::int64_t block_rows = std::min(rows_, kBlockRows), depth = std::min(k_, kBlockDepth);
  const std::int64_t converted = takes_floats(a_) ? 0 : block_rows * depth;
  workspace_floats_ = static_cast<std::size_t>(
      2 * kBlockColumns + (direct_ ? rows_ * (2 * quant_half(k_) + 16 + kPartColumns)
                                   : kBlockColumns * (depth + block_rows) + converted));
}

/// What one thread does: columns [first, last) of the result.
class MatmulQuant::Worker {
 public:
  Worker(const MatmulQuant& product, std::span<std::byte* const> buffers, std::byte* workspace)
      : p_(product), buffers_(buffers), free_(reinterpret_cast<float*>(workspace)) {
    weights_ = p_.weights_;
    weights_.values = static_cast<const std::byte*>(p_.values_->memory.get_data_handle());
    weights_.scales = p_.scales_ ? static_cast<const float*>(p_.scales_->memory.get_data_handle())
                                 : reinterpret_cast<const float*>(buffers[p_.scales_buffer_]);
    if (p_.zeros_buffer_ < 0) return;
    const std::byte* zeros = buffers[static_cast<std::size_t>(p_.zeros_buffer_)];
    if (p_.float_zeros_)
      weights_.float_zeros = reinterpret_cast<const float*>(zeros);
    else
      weights_.zeros = reinterpret_cast<const std::int8_t*>(zeros);
  }

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

  /// Row `row` of x from column `begin` on: where it lies, or as floats in `space`.
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
    const std::int64_t half = quant_half(p_.k_);
    for (std::int64_t m = 0; m < p_.rows_; ++m) {
      float* space = take(rounded_up(2 * half, 16));
      if (weights_.bits == 8) {
        x[m] = x_row(m, 0, p_.k_, space);
        continue;
      }
      const Operand& a = p_.a_;
      const auto size = static_cast<std::int64_t>(size_of(a.dtype));
      const std::byte* from = buffers_[a.buffer] + a.rows[static_cast<std::size_t>(m)] * size;
      load_floats(a.dtype, from, 2 * a.step, half, space);
      load_floats(a.dtype, from + a.step * size, 2 * a.step, p_.k_ / 2, space + half);
      x[m] = space;
    }
    float* sums = take(p_.rows_ * kPartColumns);
    for (std::int64_t n = first; n < last; n += kPartColumns) {
      const std::int64_t count = std::min(kPartColumns, last - n);
      for (std::int64_t m = 0; m < p_.rows_; m += kMostDirectRows)
        dot_quantised(weights_, n, count, x + m, std::min(kMostDirectRows, p_.rows_ - m),
                      sums + m * kPartColumns, kPartColumns);
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
      for (std::int64_t m = 0; m < p_.rows_; m += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, p_.rows_ - m);
        std::fill_n(sums, rows * kBlockColumns, 0.0F);
        for (std::int64_t k = 0; k < p_.k_; k += depth) {
          const std::int64_t end = std::min(k + depth, p_.k_);
          for (std::int64_t c = 0; c < count; c += kPanelStep)
            dequantise_panel(weights_, n + c, std::min(kPanelStep, count - c), k, end, panel + c,
                             kBlockColumns);
          const float* x[kBlockRows];
          for (std::int64_t r = 0; r < rows; ++r) x[r] = x_row(m + r, k, end, space + r * depth);
          add_products(x, rows, panel, kBlockColumns, rounded_up(count, kPanelStep), end - k, sums,
                       kBlockColumns);
        }
        for (std::int64_t r = 0; r < rows; ++r) finish(m + r, n, count, sums + r * kBlockColumns);
      }
    }
  }

  void load_bias(std::int64_t n, std::int64_t count) {
    if (p_.bias_ < 0) return;
    const auto size = static_cast<std::int64_t>(size_of(p_.d_.dtype));
    load_floats(p_.d_.dtype, buffers_[static_cast<std::size_t>(p_.bias_)] + n * size, 1, count,
                bias_);
  }

  /// Stores columns [n, n + count) of a row.
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
  QuantRows weights_;
};

void MatmulQuant::run(std::span<std::byte* const> buffers,
                      std::span<std::byte* const> workspaces) const {
  if (rows_ == 0 || n_ == 0) return;
  run_team(threads_, [&](int me, int team) {
    // Whole parts for each thread: what a thread computes does not depend on how many there are.
    const std::int64_t parts = rounded_up(n_, kPartColumns) / kPartColumns;
    const std::int64_t first = parts * me / team * kPartColumns,
                       last = std::min(n_, parts * (me + 1) / team * kPartColumns);
    if (first < last)
      Worker(*this, buffers, workspaces[static_cast<std::size_t>(me)]).multiply(first, last);
  });
}

}  // namespace sinter::runtime::cpu
