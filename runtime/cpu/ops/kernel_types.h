// SPDX-License-Identifier: Apache-2.0
// What a kernel over a tile takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

namespace sinter::runtime::cpu {

/// Values of one operand over a tile of rows x cols: value (r, c) is at data[r * row_stride + c],
/// or at data[r * row_stride] if it is one per row.
struct View {
  const void* data = nullptr;
  std::int64_t row_stride = 0;  // elements
  bool per_column = false;
};

/// Result (r, c) goes to result[r * result_stride + c]. It may be an operand's own place, if that
/// has the same strides and element size.
struct OpArgs {
  std::int64_t rows = 0, cols = 0;
  void* result = nullptr;
  std::int64_t result_stride = 0;
  View args[3];
};
using OpKernel = void (*)(const OpArgs&);

/// A reduction of rows x cols values into accumulators of kAccumulatorBytes each: one per row, or
/// one per column. Partial sums within a tile are in the type itself over a fixed number of lanes,
/// across tiles float32 accumulates in float64; the order depends on the sizes alone.
inline constexpr std::size_t kAccumulatorBytes = 8;
struct ReduceArgs {
  std::int64_t rows = 0, cols = 0;
  View value;
  void* accumulators = nullptr;
};
struct ReduceKernels {
  void (*init)(void* accumulators, std::int64_t count) = nullptr;
  void (*along_rows)(const ReduceArgs&) = nullptr;     // one accumulator per row
  void (*along_columns)(const ReduceArgs&) = nullptr;  // one accumulator per column
  void (*finish)(const void* accumulators, void* result, std::int64_t count) = nullptr;
  /// Rows of `cols` neighbouring elements that lie anywhere, to one accumulator per column from
  /// column `first` on, with one more row of elements `*fill` unless that is null.
  void (*rows_anywhere)(std::span<const void* const> rows, const void* fill, std::int64_t first,
                        std::int64_t cols, void* accumulators) = nullptr;
  /// A minimum of integers combines with the numbers, from `first` on, of the columns (of the rows)
  /// whose flag in `value` is true.
  void (*flagged_columns)(const ReduceArgs& flags, std::int64_t first) = nullptr;
  void (*flagged_rows)(const ReduceArgs& flags, std::int64_t first) = nullptr;
};

}  // namespace sinter::runtime::cpu
