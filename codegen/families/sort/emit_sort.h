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

/// Distribution of rows over threads: `threads` threads sort a piece of `piece` elements in shared
/// memory, and a block has `pieces` of them. Then `passes` passes merge pairs of runs; for shorter
/// rows the last passes are empty.
struct SortSchedule {
  int piece = 0, threads = 0, pieces = 0, passes = 0;
  /// Where few elements of a piece are asked for: groups of which these are found first.
  int groups = 0;
  /// "sort piece=2048 threads=512x1 passes=3".
  std::string to_string() const;
};
SortSchedule choose_sort(const SortProblem& problem, const ExprTable& exprs);

/// Bytes of each buffer of sorted runs; zero if no row is longer than a piece.
Dim sort_scratch_bytes(const SortProblem& problem, const SortSchedule& schedule,
                       const ExprTable& exprs);

/// Emits the sort of pieces as `step` and the merges, in order, as `more`, in one source.
/// `scratch`: one buffer for one pass, two for more.
EmittedKernel emit_sort(const SortProblem& problem, const std::vector<std::uint32_t>& scratch,
                        const std::string& name, const std::vector<std::string>& origins,
                        ExprTable& exprs);

}  // namespace sinter::codegen
