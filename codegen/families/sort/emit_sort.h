// SPDX-License-Identifier: Apache-2.0
// Regions of kind "sort": their buffers, the layout of rows, and the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// outer * inner rows of `length` elements of type `dtype`: element e of row (o, i) is at (o *
/// length + e) * inner + i. The output has the indices (int64) of the first `count` sorted
/// elements, in the same layout with `count` elements a row.
struct SortProblem {
  std::uint32_t input = 0, output = 0;  // plan buffers
  DType dtype = DType::kFloat32;
  Dim outer, length, inner, count;
  bool descending = false;
};

/// Distribution of rows over threads. Rows of up to `merged` elements: `threads` threads sort a
/// piece of `piece` elements in shared memory, and a block has `pieces` of them; then `passes`
/// passes merge pairs of runs. Longer rows: a radix sort of `digits` bytes. For rows of other
/// lengths kernels are empty.
struct SortSchedule {
  int piece = 0, threads = 0, pieces = 0, passes = 0;
  /// Where few elements of a piece are asked for: groups of which these are found first.
  int groups = 0;
  std::int64_t merged = 0;
  int digits = 0;  // 0: no row is longer
  bool has_pieces = true;

  /// "sort piece=2048 threads=512x1 passes=2 digits=8".
  std::string to_string() const;
  /// Kernels in order.
  std::size_t kernels() const;
};
SortSchedule choose_sort(const SortProblem& problem, const ExprTable& exprs);

/// Bytes of the memory that a sort needs: up to two buffers of sorted runs, then, for a radix sort,
/// counts and records.
std::vector<Dim> sort_scratch_bytes(const SortProblem& problem, const SortSchedule& schedule,
                                    const ExprTable& exprs);

/// Emits the kernels in order, `step` and then `more`, in one source. `scratch`: buffers of
/// sort_scratch_bytes().
EmittedKernel emit_sort(const SortProblem& problem, const std::vector<std::uint32_t>& scratch,
                        const std::string& name, const std::vector<std::string>& origins,
                        ExprTable& exprs);

}  // namespace sinter::codegen
