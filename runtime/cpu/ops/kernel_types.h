// SPDX-License-Identifier: Apache-2.0
// Arguments of kernels over a tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

namespace sinter::runtime::cpu {

/// An operand over a tile of rows x cols: value (r, c) is data[r * row_stride + c], or data[r *
/// row_stride] if there is one per row.
struct View {
  const void* data = nullptr;
  std::int64_t row_stride = 0;  // elements
  bool per_column = false;
};

/// Result (r, c) is stored at result[r * result_stride + c]. It may overwrite an operand with equal
/// strides and element size.
struct OpArgs {
  std::int64_t rows = 0, cols = 0;
  void* result = nullptr;
  std::int64_t result_stride = 0;
  View args[3];
};
using OpKernel = void (*)(const OpArgs&);

/// Reduces rows x cols values into accumulators of kAccumulatorBytes each: one per row, or one per
/// column. Within a tile, partial sums have the value's type and a fixed number of lanes; across
/// tiles, float32 accumulates in float64. The order depends only on sizes.
inline constexpr std::size_t kAccumulatorBytes = 8;
struct ReduceArgs {
  std::int64_t rows = 0, cols = 0;
  View value;
  void* accumulators = nullptr;
};
using ReduceColumns = void (*)(const ReduceArgs&);
struct ReduceKernels {
  void (*init)(void* accumulators, std::int64_t count) = nullptr;
  void (*along_rows)(const ReduceArgs&) = nullptr;  // one accumulator per row
  ReduceColumns along_columns = nullptr;            // one accumulator per column
  void (*finish)(const void* accumulators, void* result, std::int64_t count) = nullptr;
  /// Reduces rows of `cols` contiguous elements at any addresses, to one accumulator per column
  /// from column `first` on. If `fill` is not null, adds a row whose elements are all `*fill`.
  void (*rows_anywhere)(std::span<const void* const> rows, const void* fill, std::int64_t first,
                        std::int64_t cols, void* accumulators) = nullptr;
  /// Index of the first true flag: an integer minimum over the column (row) numbers, counted from
  /// `first`, whose flag in `value` is true.
  void (*flagged_columns)(const ReduceArgs& flags, std::int64_t first) = nullptr;
  void (*flagged_rows)(const ReduceArgs& flags, std::int64_t first) = nullptr;
};

}  // namespace sinter::runtime::cpu
