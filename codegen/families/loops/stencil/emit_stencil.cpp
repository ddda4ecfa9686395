// SPDX-License-Identifier: Apache-2.0
// Stencil kernels: which rectangle of which plane a block and a thread have. The body copies and
// reduces (stencil_body.cpp).
#include <fmt/format.h>

#include "codegen/families/loops/loop_schedule.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

namespace {

/// Splits `rest` into a tile along dimension `d`, declared as `first`, and what remains.
std::string take_tiles(const ProgramAnalysis& analysis, Arguments& args, bool wide, int d,
                       const char* first, int tile, const std::string& rest, ir::Dim& blocks,
                       ThreadMapping& mapping) {
  const ir::Dim count = ir::ceil_div(analysis.extent(d), tile, analysis.exprs().ranges());
  const char* type = count_type(wide);
  auto& lines = mapping.prologue;
  blocks = blocks * count;
  const std::string quotient = fmt::format("{}_rest", first);
  lines.push_back(fmt::format("const {0} {1} = quotient({2}, {0}({3}));", type, quotient, rest,
                              args.dim(count)));
  lines.push_back(fmt::format("const i32 {0} = i32({1} - {2} * {3}({4})) * {5};", first, rest,
                              quotient, type, args.dim(count), tile));
  return quotient;
}

}  // namespace

ThreadMapping map_stencil(const ProgramAnalysis& analysis, const Schedule& schedule,
                          Arguments& args) {
  const auto& own = schedule.as<StencilParameters>();
  const DimSet tiles = dim_bit(own.x.tile_dim) | dim_bit(own.y.tile_dim);
  const DimSet planes = analysis.outer_dims() & ~tiles;
  ThreadMapping mapping = start_mapping(analysis, schedule, planes, analysis.inner_dims() | tiles);
  const int threads_x = schedule.threads_x, threads_y = schedule.threads_y / own.planes;
  const bool wide = needs_wide(analysis, analysis.row_count());
  std::string rest = block_text(analysis, wide);
  ir::Dim blocks = 1;
  rest = take_tiles(analysis, args, wide, own.x.tile_dim, "left", threads_x * own.columns, rest,
                    blocks, mapping);
  if (own.y.tile_dim >= 0)
    rest = take_tiles(analysis, args, wide, own.y.tile_dim, "top", threads_y * own.rows, rest,
                      blocks, mapping);
  const int of_plane = threads_x * threads_y;
  const ir::Dim count = count_vectors(analysis, schedule, planes);
  place_rows(analysis, args, planes,
             own.planes == 1
                 ? rest
                 : fmt::format("{} * {} + threadIdx.x / {}", rest, own.planes, of_plane),
             count, own.planes, false, mapping);
  mapping.blocks = mapping.blocks * blocks;
  const auto set = [&](int d, std::string text, std::int64_t most) {
    if (d >= 0) mapping.indices[static_cast<std::size_t>(d)] = {std::move(text), false, most};
  };
  const auto largest = [&](int d, std::int64_t tile) {
    return d < 0 ? 0 : upper(analysis, analysis.extent(d)).value_or(INT32_MAX / 2) + tile;
  };
  mapping.prologue.push_back(fmt::format("const i32 i{} = left + i32(threadIdx.x % {}) * {};",
                                         own.x.tile_dim, threads_x, own.columns));
  set(own.x.tile_dim, fmt::format("i{}", own.x.tile_dim),
      largest(own.x.tile_dim, own.x.slots(threads_x * own.columns, 1)));
  if (own.y.tile_dim >= 0)
    mapping.prologue.push_back(
        fmt::format("const i32 first = top + i32(threadIdx.x / {} % {}) * {};", threads_x,
                    threads_y, own.rows));
  set(own.y.tile_dim, "(first + t)", largest(own.y.tile_dim, own.y.slots(threads_y * own.rows, 1)));
  for (std::size_t d = analysis.outer_rank(); d < analysis.rank(); ++d) {
    if ((analysis.inner_dims() & dim_bit(d)) == 0) continue;
    const std::int64_t extent = analysis.extent(d).value();
    const bool is_x = static_cast<int>(d) == own.x.window_dim;
    const bool is_y = static_cast<int>(d) == own.y.window_dim;
    const std::int64_t most = is_x   ? own.x.slots(threads_x * own.columns, extent)
                              : is_y ? own.y.slots(threads_y * own.rows, extent)
                                     : extent;
    set(static_cast<int>(d), fmt::format("i{}", d), most - 1);
  }
  return mapping;
}

}  // namespace sinter::codegen
