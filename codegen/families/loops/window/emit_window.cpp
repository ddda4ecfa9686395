// SPDX-License-Identifier: Apache-2.0
// Window kernels: a thread reduces whole rows for a vector of channels, and a tile of such rows.
// The body has the loops over the rows' elements (window_body.cpp).
#include <fmt/format.h>

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

ThreadMapping map_window(const ProgramAnalysis& analysis, const Schedule& schedule,
                         Arguments& args) {
  const auto& [tile, rolled, overlap] = schedule.as<WindowParameters>();
  const bool tiled = tile > 1;
  const auto tile_dim = static_cast<std::size_t>(overlap.tile_dim);
  const DimSet loop_dims =
      analysis.inner_dims() | dim_bit(schedule.vector_dim) | (tiled ? dim_bit(tile_dim) : 0);
  ThreadMapping mapping =
      start_mapping(analysis, schedule, analysis.outer_dims() & ~loop_dims, loop_dims);
  place_rows(analysis, args, analysis.outer_dims(),
             fmt::format("{} * {} + threadIdx.x", block_text(analysis, false), schedule.threads()),
             count_vectors(analysis, schedule, analysis.outer_dims()), schedule.threads(), true,
             mapping);
  if (tiled) {
    const ir::Dim& extent = analysis.extent(tile_dim);
    LoopIndex& index = mapping.indices[tile_dim];
    // The last tile is shifted to end with the row: some results are computed and stored twice.
    const bool whole = !extent.is_constant() || extent.value() % tile == 0;
    mapping.prologue.push_back(whole ? fmt::format("const i32 first = {};", index.text)
                                     : fmt::format("const i32 first = minimum({}, {});", index.text,
                                                   extent.value() - tile));
    index.text = "(first + t)";
  }
  for (std::size_t d = analysis.outer_rank(); d < analysis.rank(); ++d) {
    if ((analysis.inner_dims() & dim_bit(d)) == 0) continue;
    const std::int64_t extent = analysis.extent(d).value();
    const bool window = tiled && static_cast<int>(d) == overlap.window_dim;
    const std::int64_t most = window ? overlap.slots(tile, extent) : extent;
    mapping.indices[d] = {fmt::format("i{}", d), false, most - 1};
  }
  return mapping;
}

}  // namespace sinter::codegen
