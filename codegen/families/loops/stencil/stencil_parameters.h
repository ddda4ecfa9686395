// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/families/loops/window/window_parameters.h"

namespace sinter::codegen {

/// A block copies what the windows of a rectangle of results read into shared memory. A thread
/// reduces `columns` times `rows` neighbouring windows; a block has threads_x of them along x, and
/// threads_y / planes along y, for each of `planes` planes (the other outer dimensions).
struct StencilParameters {
  int columns = 1;  // results of a thread along x.tile_dim
  int rows = 1;     // and along y.tile_dim
  int planes = 1;   // of a block
  Overlap x, y;     // the contiguous dimension, and another one; y.tile_dim = -1: none

  static constexpr const char* kName = "stencil";
  static constexpr std::tuple kWords{Word{"columns", &StencilParameters::columns},
                                     Word{"rows", &StencilParameters::rows},
                                     Word{"planes", &StencilParameters::planes}};
};

}  // namespace sinter::codegen
