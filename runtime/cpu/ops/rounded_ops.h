// SPDX-License-Identifier: Apache-2.0
// Products of quantized weights and rows rounded to 8 bits, with vector instructions chosen at run
// time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cpu/ops/quant_ops.h"

namespace sinter::runtime::cpu {

/// Rows of x as integers: x[m][i] is about codes[m * pitch + i] * scales[m * blocks + i / block],
/// with the sum of each block's integers. Zeros are behind the last element, up to `pitch`.
struct RoundedRows {
  const std::int8_t* codes = nullptr;
  const float* scales = nullptr;
  const std::int32_t* sums = nullptr;
  std::int64_t pitch = 0, blocks = 0, block = 32;
};

/// Elements that a thread rounds in a nanosecond, about.
inline constexpr double kRoundedPerNanosecond = 8;
/// The most elements of a block, which are whole words of a panel.
inline constexpr std::int64_t kMostRounded = 64;

/// Rounds k elements of a row to the nearest of max |x| / 127 of their block; `codes` has room for
/// whole blocks. What is NaN or infinite makes its block's products NaN.
void round_row(const float* x, std::int64_t k, std::int64_t block, std::int8_t* codes,
               float* scales, std::int32_t* sums);

/// y[m * y_pitch + r] = sum over k of x[m][k] * w[r][k], for all rows r of a panel and rows m of x
/// in [first, first + count). Sums of a block are exact. A group of `weights` is whole blocks.
void dot_rounded(const QuantPanels& weights, std::int64_t panel, const RoundedRows& x,
                 std::int64_t first, std::int64_t count, float* y, std::int64_t y_pitch);

}  // namespace sinter::runtime::cpu
