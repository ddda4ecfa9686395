// SPDX-License-Identifier: Apache-2.0
// Quantized weights as panels, and rows of x times columns of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan_generated.h"
#include "runtime/cpu/gemm/dnnl/packed_weights.h"
#include "runtime/cpu/ops/quant_ops.h"
#include "runtime/plan/panels/quant_panels.h"

namespace sinter::runtime::cpu {

/// Where the weights [n, k] of a plan lie.
struct QuantSource {
  std::uint32_t values = 0, scales = 0;                       // buffers
  std::int64_t zero_points = -1, factors = -1, offsets = -1;  // buffers; -1: none
  std::int64_t n = 0, k = 0;
  int bits = 8;
  std::int64_t group = 1;  // k's that share a scale
  std::span<const std::int8_t> numbers;
  float unit = 1;  // of numbers
  int zero = 0;    // of codes that are no numbers
};

/// Values, scales (as float32), zero points and offsets, packed as panels.
class QuantWeights {
 public:
  QuantWeights() = default;
  QuantWeights(const plan::fb::PlanT& plan, const QuantSource& source, PackedWeights& weights);

  const QuantPanels& panels() const { return panels_; }

 private:
  QuantPanels panels_;
  std::vector<std::shared_ptr<const PackedWeights::Entry>> entries_;  // own the weights
};

/// A block of dequantized weights and its accumulators fit a core's private cache.
inline constexpr std::int64_t kQuantBlockDepth = 256, kQuantBlockRows = 256;
/// Threads take multiples of this number of columns; also the block width of the direct method.
inline constexpr std::int64_t kQuantPartColumns = 32;
/// Above this number of rows, it is faster to dequantize blocks of weights once than for every few
/// rows.
inline constexpr std::int64_t kMostQuantRowsDirectly = 6;
static_assert(kMostQuantRowsDirectly >= kQuantRows - 1);

/// The step of columns between parts: a column's result does not depend on its part.
constexpr std::int64_t quant_part_columns(std::int64_t rows) {
  return rows <= kMostQuantRowsDirectly ? kQuantPartColumns : kQuantColumns;
}
/// Floats that multiply_columns() needs for at most `rows` rows.
std::size_t quant_workspace_floats(std::int64_t rows, std::int64_t k);

/// Columns [first, last) of all rows: for few rows, dequantizes while reading, at memory speed. For
/// more, dequantizes blocks of weights into the cache and uses them for all rows. `first` is a
/// multiple of quant_part_columns(). `rows`:
///   count()                       how many
///   x(row, begin, end, space)     floats of a row of x, in place or in `space`
///   begin(n, count)               called before the results of columns [n, n + count)
///   finish(row, n, count, sums)   takes the results of a row
template <typename Rows>
void multiply_columns(const QuantPanels& weights, Rows& rows, std::int64_t first, std::int64_t last,
                      float* workspace) {
  const auto take = [&](std::int64_t count) {
    float* result = workspace;
    workspace += count;
    return result;
  };
  const std::int64_t count = rows.count(), k = weights.k;
  if (count <= kMostQuantRowsDirectly) {
    const float* x[kMostQuantRowsDirectly] = {};
    for (std::int64_t m = 0; m < count; ++m) x[m] = rows.x(m, 0, k, take(rounded_up_to(k, 16)));
    float* sums = take(count * kQuantPartColumns);
    for (std::int64_t n = first; n < last; n += kQuantPartColumns) {
      const std::int64_t columns = std::min(kQuantPartColumns, last - n);
      for (std::int64_t c = 0; c < columns; c += kPanelStep)
        dot_quantized(weights, (n + c) / kPanelStep, x, count, sums + c, kQuantPartColumns);
      rows.begin(n, columns);
      for (std::int64_t m = 0; m < count; ++m)
        rows.finish(m, n, columns, sums + m * kQuantPartColumns);
    }
    return;
  }
  // Rows of the next block out of `left`; leaves at least kQuantRows, or none, for the last one.
  const auto block_rows = [](std::int64_t left) {
    if (left <= kQuantBlockRows) return left;
    return left - kQuantBlockRows < kQuantRows ? kQuantBlockRows - kQuantRows : kQuantBlockRows;
  };
  const std::int64_t most = std::min(count, kQuantBlockRows), depth = std::min(k, kQuantBlockDepth);
  float *panel = take(kQuantColumns * depth), *sums = take(kQuantColumns * most),
        *space = workspace;
  for (std::int64_t n = first; n < last; n += kQuantColumns) {
    const std::int64_t columns = std::min(kQuantColumns, last - n);
    rows.begin(n, columns);
    for (std::int64_t m = 0; m < count;) {
      const std::int64_t here = block_rows(count - m);
      std::fill_n(sums, here * kQuantColumns, 0.0F);
      for (std::int64_t i = 0; i < k; i += depth) {
        const std::int64_t end = std::min(i + depth, k);
        const float* x[kQuantBlockRows];
        for (std::int64_t r = 0; r < here; ++r) x[r] = rows.x(m + r, i, end, space + r * depth);
        multiply_quantized(weights, n / kPanelStep, rounded_up_to(columns, kPanelStep), i, end, x,
                           here, sums, kQuantColumns, panel);
      }
      for (std::int64_t r = 0; r < here; ++r)
        rows.finish(m + r, n, columns, sums + r * kQuantColumns);
      m += here;
    }
  }
}

}  // namespace sinter::runtime::cpu
