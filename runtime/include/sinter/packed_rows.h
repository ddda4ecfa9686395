// SPDX-License-Identifier: Apache-2.0
// How many rows a packed batch has: the tokens of all its sequences, rounded up so that batches of
// about as many tokens share one bound shape, and with it one CUDA graph.
// Standard library only: every folder may include this header.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace sinter {

/// `tokens` rounded up in 16 steps from one power of two to the next, at least to a multiple of 8
/// (so that up to 1/16 of the rows of a larger batch are empty), but to at most `most`, which is
/// at least 1: the batch times the length that it is padded to.
constexpr std::int64_t packed_rows(std::int64_t tokens, std::int64_t most) {
  constexpr std::int64_t kLeastStep = 8, kSteps = 16;
  const auto power = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(tokens, 1))));
  const std::int64_t step = std::max(kLeastStep, power / kSteps);
  return std::min(most, std::max<std::int64_t>(tokens + step - 1, step) / step * step);
}

}  // namespace sinter
