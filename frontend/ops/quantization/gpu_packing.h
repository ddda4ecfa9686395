// SPDX-License-Identifier: Apache-2.0
// Orders of bytes in which exporters lay out few-bit weights for one GPU kernel.
#pragma once

#include <cstdint>

#include "ir/tensor.h"

namespace sinter::frontend {

/// How the numbers of matrices [rows, columns] lie in their bytes; kRows is by rows, the first
/// number in the low bits, as all other readers of this folder want it.
enum class WeightPacking : std::int64_t {
  kRows,
  /// By columns: a byte has numbers of consecutive rows.
  kColumns,
  /// CUTLASS's mixed product of 16-bit and few-bit matrices on sm_80: groups of rows are
  /// interleaved in tiles of 64 columns, whose columns are permuted for ldmatrix.
  kMixedSm80,
  /// The same for sm_90, by whole rows.
  kMixedSm90,
};

/// `packed`, `matrices` matrices [rows, columns] of `bits`-bit numbers (4 or 8), by rows: u8
/// [matrices * rows, columns * bits / 8]. False of fits_packing: a size that the packing cannot
/// have.
bool fits_packing(WeightPacking packing, std::int64_t rows, std::int64_t columns,
                  std::int64_t bits);
ir::Tensor packed_by_rows(const ir::Tensor& packed, WeightPacking packing, std::int64_t matrices,
                          std::int64_t rows, std::int64_t columns, std::int64_t bits);

}  // namespace sinter::frontend
