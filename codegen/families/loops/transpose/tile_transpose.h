#pragma once

#include <vector>

namespace sinter::codegen {

/// Accesses whose neighbours lie along `load_dim` while most of what a kernel stores lies along
/// `store_dim`: a block passes them through shared memory, tile by tile, in vectors along
/// `load_dim`.
struct TileTranspose {
  int load_dim = -1, store_dim = -1;  // loop dimensions
  int load_vector = 1;                // elements along load_dim that one load moves
  int width = 0;                      // of a tile, along store_dim: powers of two
  int height = 0;                     // along load_dim
  std::vector<bool> values;           // which loads and stores

  static constexpr const char* kName = "transpose";
};

}  // namespace sinter::codegen
