// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels with transposed loads: a block fills tiles in shared memory along one
// dimension, then computes and stores along the other.
#include <fmt/format.h>

#include "codegen/families/loops/loop_schedule.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

namespace {

/// Adjacent threads take `lanes` adjacent vectors, then the next row.
void walk_tile(const ProgramAnalysis& analysis, Arguments& args, const ThreadMapping& mapping,
               const char* along, const char* across, int lanes, VectorLoop& loop) {
  const Schedule& schedule = loop.schedule;
  const auto& tiles = schedule.as<TileTranspose>();
  const int rows = schedule.threads() / lanes;
  loop.lines.push_back(
      fmt::format("const u32 {} = threadIdx.x % {}{};", along, lanes,
                  schedule.vector > 1 ? fmt::format(" * {}", schedule.vector) : ""));
  loop.lines.push_back(fmt::format("const u32 {} = threadIdx.x / {}{};", across, lanes,
                                   loop.unrolled() ? fmt::format(" + k * {}", rows) : ""));
  for (const auto& [d, coordinate, size] : {std::tuple(tiles.store_dim, "x", tiles.width),
                                            std::tuple(tiles.load_dim, "y", tiles.height)}) {
    const char* type = mapping.indices[static_cast<std::size_t>(d)].wide ? "i64" : "i32";
    loop.lines.push_back(fmt::format("const {0} i{1} = first{1} + {0}({2});", type, d, coordinate));
    const ir::Dim& extent = analysis.extent(d);
    if (extent.is_constant() && extent.value() % size == 0) continue;
    loop.predicate += fmt::format("{}i{} < {}({})", loop.predicate.empty() ? "" : " && ", d, type,
                                  args.dim(extent));
  }
}

}  // namespace

ThreadMapping map_transpose(const ProgramAnalysis& analysis, const Schedule& schedule,
                            Arguments& args) {
  const auto& tiles = schedule.as<TileTranspose>();
  const DimSet tile = dim_bit(tiles.load_dim) | dim_bit(tiles.store_dim);
  ThreadMapping mapping = start_mapping(analysis, schedule, analysis.outer_dims() & ~tile, tile);
  // Blocks take tiles along the stores first, then along the loads, then along other dimensions.
  std::string rest = analysis.request().block;
  mapping.blocks = analysis.size_of_dims(mapping.thread_dims);
  for (const auto& [d, size] :
       {std::pair(tiles.store_dim, tiles.width), std::pair(tiles.load_dim, tiles.height)}) {
    const ir::Dim along = ir::ceil_div(analysis.extent(d), size, analysis.exprs().ranges());
    mapping.blocks = mapping.blocks * along;
    LoopIndex& index = mapping.indices[static_cast<std::size_t>(d)];
    index.text = fmt::format("i{}", d);
    index.wide = needs_wide(analysis, analysis.extent(d) + ir::Dim(size));
    index.max = std::nullopt;
    if (const auto most = upper(analysis, analysis.extent(d))) index.max = *most - 1;
    const std::string count = fmt::format("u32({})", args.dim(along));
    mapping.prologue.push_back(fmt::format("const u32 q{} = quotient({}, {});", d, rest, count));
    mapping.prologue.push_back(fmt::format("const {0} first{1} = {0}({2} - q{1} * {3}) * {4};",
                                           index.wide ? "i64" : "i32", d, rest, count, size));
    rest = fmt::format("q{}", d);
  }
  split_index(analysis, args, mapping.thread_dims, rest, false, mapping, mapping.prologue);

  VectorLoop loads = mapping.loop;
  loads.schedule.vector = tiles.load_vector;
  loads.schedule.vector_dim = tiles.load_vector > 1 ? tiles.load_dim : -1;
  loads.schedule.unroll = tiles.width * tiles.height / tiles.load_vector / schedule.threads();
  // Always a loop, even for one vector, to have its own scope.
  loads.header = fmt::format("for (int k = 0; k < {}; ++k)", loads.schedule.unroll);
  walk_tile(analysis, args, mapping, "y", "x", tiles.height / tiles.load_vector, loads);
  walk_tile(analysis, args, mapping, "x", "y", tiles.width / schedule.vector, mapping.loop);
  mapping.tile_loads = std::move(loads);
  mapping.leader = "threadIdx.x == 0";
  return mapping;
}

}  // namespace sinter::codegen
