// SPDX-License-Identifier: Apache-2.0
// Limits of tensor maps; see cuTensorMapEncodeIm2col.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sinter::plan {

/// Maximum stride between windows (cuTensorMapEncodeIm2col's elementStrides).
inline constexpr std::int64_t kMostWindowStep = 8;

/// Limits of cuTensorMapEncodeIm2col's bounding box: its corners are in [-bound, bound) relative to
/// the tensor's, and a window extends over up to twice as many pixels. `rank` includes channels and
/// images.
inline constexpr int window_bound(std::size_t rank) {
  return rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
}

}  // namespace sinter::plan
