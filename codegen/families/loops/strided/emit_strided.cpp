// SPDX-License-Identifier: Apache-2.0
// Strided kernels: a row is a set of runs, a stride apart. threadIdx.x gives a vector's position in
// the adjacent runs of the block's rows, threadIdx.y the thread among those that share them. Blocks
// of a cluster share rows, too.
#include <fmt/format.h>

#include "codegen/families/loops/strided/strided_schedule.h"

namespace sinter::codegen {

ThreadMapping map_strided(const ProgramAnalysis& analysis, const Schedule& schedule,
                          Arguments& args) {
  const Runs runs = runs_of(analysis).value();
  ThreadMapping mapping =
      start_mapping(analysis, schedule, analysis.outer_dims(), analysis.inner_dims());
  const int x = schedule.threads_x, y = schedule.threads_y;
  const int cluster = schedule.reduction().cluster;
  const int lanes = static_cast<int>(runs.length) / schedule.vector, rows_of_block = x / lanes;
  const ir::Dim rows = analysis.row_count();
  const bool wide_rows = needs_wide(analysis, rows);
  std::string block = block_text(analysis, wide_rows);
  auto& prologue = mapping.prologue;
  if (cluster > 1) {
    prologue.push_back("SINTER_DYNAMIC_SHARED(shared);");
    prologue.push_back(fmt::format("const u32 rank = {} % {};", analysis.request().block, cluster));
    block = fmt::format("{} / {}", block, cluster);
  }
  prologue.push_back(fmt::format("const i32 lane = threadIdx.x % {};", x));
  place_rows(analysis, args, analysis.outer_dims(),
             fmt::format("{} * {} + lane / {}", block, rows_of_block, lanes), rows, rows_of_block,
             false, mapping);
  mapping.blocks = mapping.blocks * ir::Dim(cluster);
  LoopIndex& run = mapping.indices[static_cast<std::size_t>(runs.run_dim)];
  run.text = fmt::format("i{}", runs.run_dim);
  run.max = runs.length - 1;
  prologue.push_back(
      fmt::format("const i32 {} = lane % {} * {};", run.text, lanes, schedule.vector));
  const std::string first = fmt::format(
      "threadIdx.x / {}{}", x, cluster > 1 ? fmt::format(" + rank * {}", y * schedule.unroll) : "");
  walk_row(analysis, args, runs.steps, first, y, y * cluster, mapping);

  mapping.block = {static_cast<std::uint32_t>(x * y), 1, 1};
  mapping.leader = fmt::format("threadIdx.x < {} && lane % {} == 0{}", x, lanes,
                               cluster > 1 ? " && rank == 0" : "");
  RowReduction& reduction = mapping.reduction;
  reduction.reduce = "reduce_runs";
  reduction.reduce_sizes = fmt::format(", {}, {}, {}, {}", x, lanes, y, cluster);
  reduction.reduce_tail = cluster > 1 ? ", rank" : ", 0";
  reduction.scratch = static_cast<std::size_t>(x * y + rows_of_block * cluster);
  if (cluster > 1) {
    reduction.expect = "expect_runs";
    ++reduction.scratch;  // the mbarrier
    reduction.scratch_offset = RowReduction::kClusterScratch;
    mapping.behind_preload.push_back("cluster_wait();");
  }
  return mapping;
}

}  // namespace sinter::codegen
