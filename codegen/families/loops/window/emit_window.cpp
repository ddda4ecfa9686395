// Short rows side by side: a thread reduces whole rows of a vector of channels, a tile of such next
// to each other. The loops over the rows' elements stand in the body (body_windows.cpp).
#include <fmt/format.h>

#include "codegen/families/loops/window/window_schedule.h"

namespace sinter::codegen {

ThreadMapping map_window(const ProgramAnalysis& analysis, const Schedule& schedule,
                         Arguments& args) {
  ThreadMapping mapping;
  mapping.schedule = &schedule;
  mapping.loop_dims = analysis.inner_dims();
  const bool tiled = schedule.tile > 1;
  const auto tile_dim = static_cast<std::size_t>(schedule.overlap.tile_dim);
  if (schedule.vector_dim >= 0)
    mapping.loop_dims |= dim_bit(static_cast<std::size_t>(schedule.vector_dim));
  if (tiled) mapping.loop_dims |= dim_bit(tile_dim);
  mapping.thread_dims = analysis.outer_dims() & ~mapping.loop_dims;
  mapping.indices.resize(analysis.rank());

  const ir::Dim rows = count_vectors(analysis, schedule, analysis.outer_dims());
  auto& prologue = mapping.prologue;
  prologue.push_back(fmt::format("const u32 row = {} * {} + threadIdx.x;",
                                 block_text(analysis, false), schedule.threads()));
  if (!rows.is_constant() || rows.value() % schedule.threads() != 0)
    prologue.push_back(fmt::format("if (row >= u32({})) return;", args.dim(rows)));
  split_index(analysis, args, analysis.outer_dims(), "row", false, mapping, prologue);
  if (tiled) {
    const ir::Dim& extent = analysis.extent(tile_dim);
    LoopIndex& index = mapping.indices[tile_dim];
    // The last tile of a row lies within it: some results are computed, and written, twice.
    const bool whole = !extent.is_constant() || extent.value() % schedule.tile == 0;
    prologue.push_back(whole ? fmt::format("const i32 first = {};", index.text)
                             : fmt::format("const i32 first = minimum({}, {});", index.text,
                                           extent.value() - schedule.tile));
    index.text = "(first + t)";
  }
  for (std::size_t d = analysis.outer_rank(); d < analysis.rank(); ++d) {
    if ((analysis.inner_dims() & dim_bit(d)) == 0) continue;
    const std::int64_t extent = analysis.extent(d).value();
    const bool window = tiled && static_cast<int>(d) == schedule.overlap.window_dim;
    const std::int64_t most = window ? schedule.overlap.slots(schedule.tile, extent) : extent;
    mapping.indices[d] = {fmt::format("i{}", d), false, most - 1};
  }
  mapping.blocks = ir::ceil_div(rows, schedule.threads(), analysis.exprs().ranges());
  mapping.block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
  return mapping;
}

}  // namespace sinter::codegen
