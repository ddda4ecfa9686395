// SPDX-License-Identifier: Apache-2.0
// Scans (running sums and the like) over tiles.
#pragma once

#include "runtime/cpu/ops/kernel_types.h"

namespace sinter::runtime::cpu {

/// A scan over a tile. Result (r, c) combines the carry of row r with the values up to column c, or
/// before it if `exclusive`; down the columns likewise. Carries have kAccumulatorBytes each and
/// include the tile afterwards. float32 is carried in float64; the order depends only on sizes.
struct ScanArgs {
  std::int64_t rows = 0, cols = 0;
  View value;
  void* result = nullptr;
  std::int64_t result_stride = 0;
  void* carries = nullptr;
  bool exclusive = false;
};
struct ScanKernels {
  void (*init)(void* carries, std::int64_t count) = nullptr;
  void (*along_rows)(const ScanArgs&) = nullptr;     // one carry per row
  void (*along_columns)(const ScanArgs&) = nullptr;  // one carry per column
};
/// `type` is a compute type other than bool.
ScanKernels find_scan_kernels(Combine combine, DType type);

}  // namespace sinter::runtime::cpu
