// SPDX-License-Identifier: Apache-2.0
// Running combinations over tiles.
#pragma once

#include "runtime/cpu/ops/kernel_types.h"

namespace sinter::runtime::cpu {

/// Result (r, c) combines the carry of row r and the values up to column c, or before it if
/// `exclusive`; or, down the columns, the carry of column c and the values up to row r. Carries are
/// of kAccumulatorBytes each and include the whole tile afterwards. float32 is carried in float64;
/// the order depends on the sizes alone.
struct ScanArgs {
  std::int64_t rows = 0, cols = 0;
  View value;
  void* result = nullptr;  // row_stride is cols
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
