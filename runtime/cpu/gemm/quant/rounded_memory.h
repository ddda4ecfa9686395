// SPDX-License-Identifier: Apache-2.0
// Rows of x that are rounded to 8 bits before they are multiplied by quantized weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/cpu/gemm/quant/quant_weights.h"
#include "runtime/cpu/ops/rounded_ops.h"

namespace sinter::runtime::cpu {

struct RoundedMemory {
  std::int64_t rows = 0, k = 0, block = 0;  // block 0: rows are not rounded

  std::int64_t blocks() const { return rounded_up_to(k, block) / block; }
  /// Whole cache lines.
  std::size_t bytes() const {
    if (block == 0) return 0;
    constexpr std::size_t kLine = 64;
    const std::size_t all =
        static_cast<std::size_t>(rows * blocks()) *
        (static_cast<std::size_t>(block) + sizeof(float) + sizeof(std::int32_t));
    return (all + kLine - 1) / kLine * kLine;
  }
  RoundedRows at(std::byte* memory) const {
    RoundedRows x;
    x.block = block;
    x.blocks = blocks();
    x.pitch = x.blocks * block;
    x.scales = reinterpret_cast<const float*>(memory);
    x.sums = reinterpret_cast<const std::int32_t*>(x.scales + rows * x.blocks);
    x.codes = reinterpret_cast<const std::int8_t*>(x.sums + rows * x.blocks);
    return x;
  }
  void round(std::byte* memory, std::int64_t row, const float* from) const {
    const RoundedRows x = at(memory);
    round_row(from, k, block, const_cast<std::int8_t*>(x.codes) + row * x.pitch,
              const_cast<float*>(x.scales) + row * x.blocks,
              const_cast<std::int32_t*>(x.sums) + row * x.blocks);
  }
};

/// As multiply_columns(), of rounded rows from row `begin` of `x` on. `sums`: kQuantPartColumns for
/// each of up to kQuantBlockRows rows. `first` is a multiple of kQuantPartColumns.
template <typename Rows>
void multiply_rounded(const QuantPanels& weights, const RoundedRows& x, std::int64_t begin,
                      Rows& rows, std::int64_t first, std::int64_t last, float* sums) {
  for (std::int64_t m = 0; m < rows.count(); m += kQuantBlockRows) {
    const std::int64_t here = std::min(kQuantBlockRows, rows.count() - m);
    for (std::int64_t n = first; n < last; n += kQuantPartColumns) {
      const std::int64_t count = std::min(kQuantPartColumns, last - n);
      for (std::int64_t c = 0; c < count; c += kPanelStep)
        dot_rounded(weights, (n + c) / kPanelStep, x, begin + m, here, sums + c, kQuantPartColumns);
      rows.begin(n, count);
      for (std::int64_t r = 0; r < here; ++r)
        rows.finish(m + r, n, count, sums + r * kQuantPartColumns);
    }
  }
}

}  // namespace sinter::runtime::cpu
