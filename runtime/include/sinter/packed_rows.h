// SPDX-License-Identifier: Apache-2.0
// The number of rows of a packed batch: its total tokens, rounded up, so that batches of similar
// size share one bound shape and its CUDA graph. Standard library only: every folder may include
// this header.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace sinter {

/// Rounds `tokens` up to a multiple of max(8, p / 16), where p is the largest power of two up to
/// `tokens`. So at most 1/16 of a larger batch is padding. The result is at most `most` (at least
/// 1), the batch size times the padded length.
constexpr std::int64_t packed_rows(std::int64_t tokens, std::int64_t most) {
  constexpr std::int64_t kLeastStep = 8, kSteps = 16;
  const auto power = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(tokens, 1))));
  const std::int64_t step = std::max(kLeastStep, power / kSteps);
  return std::min(most, std::max<std::int64_t>(tokens + step - 1, step) / step * step);
}

}  // namespace sinter
