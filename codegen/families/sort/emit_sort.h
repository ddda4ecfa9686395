// Regions of kind "sort": which buffers, how rows lie in them, and the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/cost.h"
#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// outer * inner rows of `length` elements of type `dtype`: element e of row (o, i) is at
/// (o * length + e) * inner + i. The places (int64) of the first `count` elements in order go to
/// the same layout with `count` elements a row.
struct SortProblem {
  std::uint32_t input = 0, output = 0;  // plan buffers
  DType dtype = DType::kFloat32;
  Dim outer, length, inner, count;
  bool descending = false;
};

/// `body` holds one ArgSort of its input.
SortProblem lower_sort(const Graph& body, Buffers inputs, Buffers outputs);

/// The step that the CPU runs.
plan::fb::SortStepT sort_step(const SortProblem& problem, ExprTable& exprs);

/// One pass over the elements, and `length * log2(length)` comparisons, of a bound below 2^32.
StepCost cost_of(const SortProblem& problem, const ExprTable& exprs);

/// How rows are spread over threads: `threads` neighbours sort a piece of `piece` elements in
/// shared memory, a block has `pieces` of them; then `passes` times pairs of runs are merged. Rows
/// that are shorter than the longest leave the last passes empty.
struct SortSchedule {
  int piece = 0, threads = 0, pieces = 0, passes = 0;
  /// "sort piece=2048 threads=512x1 passes=3".
  std::string to_string() const;
};
SortSchedule choose_sort(const SortProblem& problem, const ExprTable& exprs);

/// Bytes of each buffer that sorted runs pass through; zero if no row is ever longer
/// than a piece.
Dim sort_scratch_bytes(const SortProblem& problem, const SortSchedule& schedule,
                       const ExprTable& exprs);

/// The sort of pieces as `step`, one merge after the other as `more`, all of one source. `scratch`:
/// a buffer where there is a pass, two where there are more.
EmittedKernel emit_sort(const SortProblem& problem, const std::vector<std::uint32_t>& scratch,
                        const std::string& name, const std::vector<std::string>& origins,
                        ExprTable& exprs);

}  // namespace sinter::codegen
