// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/families/loops/schedule_word.h"

namespace sinter::codegen {

/// Values that several rows of a tile share because their windows overlap. They vary with rows
/// along `tile_dim` and elements along `window_dim` only through row * row_step + element *
/// element_step. One of the steps is 1.
struct Overlap {
  int tile_dim = -1, window_dim = -1;  // an outer and an inner loop dimension; -1: none
  std::int64_t row_step = 1, element_step = 1;
  std::vector<bool> shared;  // the shared values
  /// Number of distinct sums for `tile` rows of `window` elements.
  std::int64_t slots(std::int64_t tile, std::int64_t window) const {
    return row_step * (tile - 1) + element_step * (window - 1) + 1;
  }
};

/// A thread reduces a vector of whole rows, and `tile` adjacent such vectors.
struct WindowParameters {
  int tile = 1;         // adjacent rows of a thread, along overlap.tile_dim
  bool rolled = false;  // only the loop over overlap.window_dim is unrolled
  Overlap overlap;

  static constexpr const char* kName = "window";
  static constexpr std::tuple kWords{Word{"tile", &WindowParameters::tile},
                                     Word{"rolled", &WindowParameters::rolled}};
};

}  // namespace sinter::codegen
