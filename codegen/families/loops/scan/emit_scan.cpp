// SPDX-License-Identifier: Apache-2.0
// Scans along rows: a row's threads process it part by part, neighbouring vectors each. A thread's
// prefix is the result over its lower lanes and over all earlier parts. With tiles, a block has one
// part, and what lies before it comes from the blocks of the parts before.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/families/loops/loop_schedule.h"
#include "codegen/families/loops/scan/scan_chain.h"

namespace sinter::codegen {
namespace {

/// Blocks are ordered by tile, then by row: what a block waits for began before it, and
/// neighbouring rows, which may share cache lines, are read together.
void place_tiles(const ProgramAnalysis& analysis, const Schedule& schedule, const ir::Dim& vectors,
                 Arguments& args, ThreadMapping& mapping) {
  const ir::Dim rows = analysis.size_of_dims(mapping.thread_dims);
  const std::int64_t part = std::int64_t{schedule.threads_x} * schedule.unroll;
  const ir::Dim tiles = ir::ceil_div(vectors, part, analysis.exprs().ranges());
  mapping.blocks = rows * tiles;
  const bool wide = needs_wide(analysis, mapping.blocks);
  const char* type = count_type(wide);
  auto& lines = mapping.prologue;
  const std::string block = block_text(analysis, wide);
  lines.push_back("const i32 lane = threadIdx.x;");
  lines.push_back(fmt::format("const {0} tile = {1} / {0}({2});", type, block, args.dim(rows)));
  lines.push_back(
      fmt::format("const {0} row = {1} - tile * {0}({2});", type, block, args.dim(rows)));
  split_index(analysis, args, mapping.thread_dims, "row", wide, mapping, lines);
  lines.push_back(fmt::format("const ScanLine line = {{tiles, row, u64({}), tile, u64({})}};",
                              args.dim(rows), args.dim(tiles)));
  mapping.leader = "lane == 0 && tile == 0";
  mapping.reduction.scratch = static_cast<std::size_t>(schedule.threads_x) / 32 + 1;
}

}  // namespace

ThreadMapping map_scan(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args) {
  const bool tiles = schedule.as<ScanParameters>().tiles;
  // Otherwise rows are mapped as for reductions; only the loop over elements differs.
  ThreadMapping mapping =
      tiles ? start_mapping(analysis, schedule, analysis.outer_dims(), analysis.inner_dims())
            : map_row(analysis, schedule, args);
  VectorLoop& loop = mapping.loop;
  loop.lines.clear();
  loop.predicate.clear();
  const int lanes = schedule.threads_x;
  const ir::Dim vectors = count_vectors(analysis, schedule, mapping.loop_dims);
  const bool wide = needs_wide(analysis, vectors);
  const char* type = count_type(wide);
  const std::int64_t part = std::int64_t{lanes} * schedule.unroll;
  std::string first = lanes == 1            ? ""
                      : schedule.unroll > 1 ? fmt::format("lane * {}", schedule.unroll)
                                            : "lane";
  const bool one_part = !tiles && vectors.is_constant() && vectors.value() <= part;
  if (tiles)
    place_tiles(analysis, schedule, vectors, args, mapping);
  else if (!one_part)
    mapping.passes.header = fmt::format("for ({0} part = 0; part < {0}({1}); part += {2})", type,
                                        args.dim(vectors), part);
  std::vector<std::string> terms;
  if (tiles) terms.push_back(fmt::format("{}(tile) * {}", type, part));
  if (!tiles && !one_part) terms.emplace_back("part");
  if (!first.empty()) terms.push_back(first);
  if (schedule.unroll > 1) terms.emplace_back("k");
  loop.lines.push_back(fmt::format(
      "const {} e = {};", type, terms.empty() ? "0" : fmt::format("{}", fmt::join(terms, " + "))));
  if (!(vectors.is_constant() && vectors.value() % part == 0))
    loop.predicate = fmt::format("e < {}({})", type, args.dim(vectors));
  split_index(analysis, args, mapping.loop_dims, "e", wide, mapping, loop.lines);
  mapping.reduction.scan = tiles         ? "scan_tiles"
                           : lanes == 1  ? "scan_thread"
                           : lanes <= 32 ? "scan_lanes"
                                         : "scan_block";
  if (lanes > 1)
    mapping.reduction.scan_sizes = fmt::format(", {}", lanes <= 32 ? lanes : lanes / 32);
  mapping.reduction.scan_line = tiles;
  return mapping;
}

}  // namespace sinter::codegen
