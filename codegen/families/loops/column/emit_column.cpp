// SPDX-License-Identifier: Apache-2.0
// Column kernels: adjacent rows are contiguous, elements of a row are far apart. Adjacent threads
// take adjacent rows or vectors of them; threadIdx.y traverses the elements.
#include <fmt/format.h>

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

ThreadMapping map_column(const ProgramAnalysis& analysis, const Schedule& schedule,
                         Arguments& args) {
  const DimSet vectors = dim_bit(schedule.vector_dim), inner = analysis.inner_dims();
  ThreadMapping mapping =
      start_mapping(analysis, schedule, analysis.outer_dims() & ~vectors, inner | vectors);
  const int x = schedule.threads_x, y = schedule.threads_y;
  const ir::Dim rows = count_vectors(analysis, schedule, analysis.outer_dims());
  place_rows(
      analysis, args, analysis.outer_dims(),
      fmt::format("{} * {} + threadIdx.x", block_text(analysis, needs_wide(analysis, rows)), x),
      rows, x, false, mapping);
  walk_row(analysis, args, inner, "threadIdx.y", y, y, mapping);
  const int ahead = schedule.reduction().ahead;
  if (schedule.looped() && ir::is_multiple_of(analysis.size_of_dims(inner), y * ahead))
    mapping.loop.predicate.clear();
  mapping.reduction.reduce_sizes = fmt::format(", {}, {}", x, y);
  mapping.block = {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 1};
  if (y == 1) return mapping;
  mapping.leader = "threadIdx.y == 0";
  mapping.reduction.reduce = schedule.vector > 1 ? "reduce_columns" : "reduce_column";
  mapping.reduction.scratch = static_cast<std::size_t>(x * y * schedule.vector);
  return mapping;
}

}  // namespace sinter::codegen
