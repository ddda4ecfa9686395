// SPDX-License-Identifier: Apache-2.0
// The order of rows' elements.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A SortStep of one bound shape. A thread sorts whole rows: entries of a key and a place, no two
/// of which are equal, so that the result does not depend on the algorithm. A few of many are found
/// with a heap, more by partitioning first.
class RowSort {
 public:
  RowSort(const plan::fb::PlanT& plan, const plan::fb::SortStepT& step, const BoundShape& shape,
          int threads);

  /// Bytes that each thread needs, 64-byte aligned.
  std::size_t workspace_bytes() const;
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  /// So few that a heap of them is kept, not all elements.
  bool wants_few() const { return count_ * 16 <= length_; }
  template <typename Entry>
  void sort_row(const std::byte* input, std::int64_t* output, std::int64_t row,
                std::byte* workspace) const;

  std::uint32_t input_ = 0, output_ = 0;
  DType dtype_ = DType::kFloat32;
  std::int64_t rows_ = 0, length_ = 0, inner_ = 0, count_ = 0;
  bool descending_ = false;
  int threads_ = 1;
};

}  // namespace sinter::runtime::cpu
