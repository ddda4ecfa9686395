// Kernels of kind "sort".
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/sort/sort_lowering.h"

namespace sinter::codegen {

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
ir::Dim sort_scratch_bytes(const SortProblem& problem, const SortSchedule& schedule,
                           const ExprTable& exprs);

/// The sort of pieces as `step`, one merge after the other as `more`, all of one source. `scratch`:
/// a buffer where there is a pass, two where there are more.
EmittedKernel emit_sort(const SortProblem& problem, const std::vector<std::uint32_t>& scratch,
                        const std::string& name, const std::vector<std::string>& origins,
                        ExprTable& exprs);

}  // namespace sinter::codegen
