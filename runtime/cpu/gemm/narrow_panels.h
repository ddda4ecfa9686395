// SPDX-License-Identifier: Apache-2.0
// Packed right operands of exact 8-bit integer GEMMs, for CPUs on which oneDNN's are not exact
// (`multiplies_exactly`).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu/gemm/dnnl/packed_weights.h"
#include "runtime/cpu/ops/narrow_ops.h"
#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// 8-bit integers of a plan buffer, widened to 16 bits and reordered: weights once for a plan,
/// computed values in each run.
class WidenedBytes {
 public:
  /// Writes one part of `to`. `from` is the start of the buffer.
  using Fill = std::function<void(const std::byte* from, std::int64_t part, std::int16_t* to)>;
  WidenedBytes() = default;
  /// `elements` in `parts` that are filled independently; `layout` is the key of this order.
  WidenedBytes(std::uint32_t buffer, std::int64_t elements, std::int64_t parts,
               const std::string& layout, Fill fill, const plan::PlanData& plan,
               const BoundShape& shape, PackedWeights& weights);

  /// Call in each run before data() is read.
  void refresh(std::span<std::byte* const> buffers, int threads);
  const std::int16_t* data() const { return data_; }
  /// Bytes of computed values.
  std::uint64_t own_bytes() const { return own_.size() * sizeof(std::int16_t); }

 private:
  std::uint32_t buffer_ = 0;
  std::int64_t parts_ = 0;
  Fill fill_;  // empty for weights
  std::shared_ptr<const PackedWeights::Entry> packed_;
  std::vector<std::int16_t> own_;
  const std::int16_t* data_ = nullptr;
};

/// Location of matrices [k, n] in a buffer, in elements. Row i is at offset i / inner *
/// outer_stride + i % inner * inner_stride.
struct NarrowMatrices {
  std::uint32_t buffer = 0;
  DType type = DType::kInt8;
  std::vector<std::int64_t> starts;
  std::int64_t k = 0, n = 0, inner = 1, outer_stride = 0, inner_stride = 0, column_stride = 0;
};

/// These matrices packed as panels of kPanelColumns: [matrix, panel, pair of rows, column, row].
class NarrowPanels {
 public:
  /// Limits of one multiply(), whose first column must be a multiple of kPanelColumns.
  static constexpr std::int64_t kRows = 24, kMostColumns = 512;

  NarrowPanels() = default;
  NarrowPanels(const NarrowMatrices& matrices, const plan::PlanData& plan, const BoundShape& shape,
               PackedWeights& weights);

  /// Call in each run before multiply().
  void refresh(std::span<std::byte* const> buffers, int threads) {
    values_.refresh(buffers, threads);
  }
  std::uint64_t own_bytes() const { return values_.own_bytes(); }

  /// Bytes for multiply().
  static constexpr std::size_t workspace_bytes() {
    return kRows * (kDepth * sizeof(std::int16_t) + kMostColumns * sizeof(std::int32_t));
  }

  /// Multiplies `count` rows (at most kRows) by columns `first` .. `end` (at most kMostColumns) of
  /// matrix `matrix`. Returns the sums in `workspace`, kMostColumns for each row. gather(row, from,
  /// to, x) writes elements from .. to of a row to x.
  template <typename Gather>
  const std::int32_t* multiply(std::int64_t matrix, std::int64_t first, std::int64_t end,
                               std::int64_t count, std::byte* workspace, Gather&& gather) const {
    auto* sums = reinterpret_cast<std::int32_t*>(workspace);
    auto* x = reinterpret_cast<std::int16_t*>(sums + kRows * kMostColumns);
    const std::int16_t* rows[kRows];
    for (std::int64_t r = 0; r < count; ++r) {
      rows[r] = x + r * kDepth;
      std::fill_n(sums + r * kMostColumns, rounded_up_to(end - first, kPanelStep), 0);
    }
    for (std::int64_t from = 0; from < k_; from += kDepth) {
      const std::int64_t to = std::min(from + kDepth, k_);
      for (std::int64_t r = 0; r < count; ++r) {
        gather(r, from, to, x + r * kDepth);
        if ((to - from) % 2 != 0) x[r * kDepth + to - from] = 0;
      }
      add_block(matrix, first, end, from, to, rows, count, sums);
    }
    return sums;
  }

 private:
  /// Depth of a block; a block of rows takes 24 KiB.
  static constexpr std::int64_t kDepth = 512;
  void add_block(std::int64_t matrix, std::int64_t first, std::int64_t end, std::int64_t from,
                 std::int64_t to, const std::int16_t* const* rows, std::int64_t count,
                 std::int32_t* sums) const;

  std::int64_t k_ = 0, n_ = 0, elements_ = 0;  // packed elements of a matrix
  WidenedBytes values_;
};

/// Divides GEMMs of `matrices` matrices with `rows` rows each into blocks of rows and columns.
/// Parts with the same matrix and columns are adjacent.
class NarrowParts {
 public:
  NarrowParts(std::int64_t matrices, std::int64_t rows, std::int64_t columns);
  struct Part {
    std::int64_t matrix, row, rows, first, end;  // columns [first, end)
  };
  std::int64_t count() const { return matrices_ * row_parts_ * column_parts_; }
  Part operator[](std::int64_t index) const;

 private:
  std::int64_t matrices_, rows_, columns_, width_, row_parts_, column_parts_;
};

}  // namespace sinter::runtime::cpu
