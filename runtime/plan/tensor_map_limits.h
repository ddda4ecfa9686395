// SPDX-License-Identifier: Apache-2.0
// What tensor maps can say; see cuTensorMapEncodeIm2col.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sinter::plan {

/// Steps from one window to the next.
inline constexpr std::int64_t kMostWindowStep = 8;

/// The first and last pixels of windows lie in [-bound, bound) about the tensor's, and a window has
/// up to twice as many: of a tensor of `rank` dimensions, channels and images included.
inline constexpr int window_bound(std::size_t rank) {
  return rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
}

}  // namespace sinter::plan
