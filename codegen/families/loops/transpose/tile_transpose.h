// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace sinter::codegen {

/// Accesses contiguous along `load_dim` while most of the kernel's stores are contiguous along
/// `store_dim`. A block passes them through tiles in shared memory, in vectors along
/// `load_dim`.
struct TileTranspose {
  int load_dim = -1, store_dim = -1;  // loop dimensions
  int load_vector = 1;                // elements of a load along load_dim
  int width = 0;                      // of a tile, along store_dim; a power of two
  int height = 0;                     // along load_dim
  std::vector<bool> values;           // these loads and stores

  static constexpr const char* kName = "transpose";
};

}  // namespace sinter::codegen
