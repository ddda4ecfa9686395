// SPDX-License-Identifier: Apache-2.0
// Row kernels: elements of a row are contiguous, and `threads_x` threads share a row. Up to a warp
// they reduce by shuffles, and a block has several rows; beyond, a row is a block's, or a
// cluster's. Rows that fit are read once and stay in registers.
#include <fmt/format.h>

#include "codegen/families/loops/row/row_schedule.h"

namespace sinter::codegen {

namespace {

/// The elements after the last whole vector, for rows of one dimension.
void walk_tail(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args,
               const std::string& lane, ThreadMapping& mapping) {
  const ir::Dim length = analysis.size_of_dims(mapping.loop_dims);
  const ir::Dim whole = count_vectors(analysis, schedule, mapping.loop_dims);
  const bool wide = needs_wide(analysis, length);
  const std::string first = args.dim(whole), end = args.dim(length);
  add_tail(analysis, args,
           fmt::format("for ({0} e = {0}({1}) * {2} + {3}; e < {0}({4}); e += {5})",
                       count_type(wide), first, schedule.vector, lane, end, schedule.threads_x),
           {}, schedule.unroll, wide, mapping);
}

}  // namespace

ThreadMapping map_row(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args) {
  ThreadMapping mapping =
      start_mapping(analysis, schedule, analysis.outer_dims(), analysis.inner_dims());
  const int lanes = schedule.threads_x, rows_of_block = schedule.threads_y;
  const bool in_warp = lanes <= 32;

  const ir::Dim rows = analysis.size_of_dims(mapping.thread_dims);
  const bool wide_rows = needs_wide(analysis, rows);
  std::string block = block_text(analysis, wide_rows);
  auto& prologue = mapping.prologue;
  const int cluster = schedule.row().cluster;
  if (cluster > 1) {
    prologue.push_back("SINTER_DYNAMIC_SHARED(shared);");
    prologue.push_back(fmt::format("const u32 rank = {} % {};", analysis.request().block, cluster));
    block += fmt::format(" / {}", cluster);
  }
  if (!in_warp) {
    prologue.push_back("const i32 lane = threadIdx.x;");
    if (mapping.thread_dims != 0)
      prologue.push_back(fmt::format("const {} row = {};", count_type(wide_rows), block));
    split_index(analysis, args, mapping.thread_dims, "row", wide_rows, mapping, prologue);
  } else {
    if (lanes > 1) prologue.push_back(fmt::format("const i32 lane = threadIdx.x % {};", lanes));
    const std::string row = fmt::format("{} * {} + threadIdx.x{}", block, rows_of_block,
                                        lanes > 1 ? fmt::format(" / {}", lanes) : "");
    // Whole warps may exit: no shuffle involves them.
    place_rows(analysis, args, mapping.thread_dims, row, rows, rows_of_block, lanes == 32, mapping);
  }
  mapping.blocks = ir::ceil_div(rows, rows_of_block, analysis.exprs().ranges()) * ir::Dim(cluster);

  const std::string lane = lanes > 1 ? "lane" : "0";
  const std::string part = cluster > 1 && !schedule.looped()
                               ? fmt::format(" + rank * {}", std::int64_t{lanes} * schedule.unroll)
                               : "";
  walk_row(analysis, args, mapping.loop_dims, lane + part, lanes, lanes * cluster, mapping);
  if (schedule.looped() && schedule.row().tail) walk_tail(analysis, schedule, args, lane, mapping);

  mapping.leader = cluster > 1 ? "lane == 0 && rank == 0" : lanes > 1 ? "lane == 0" : "";
  RowReduction& reduction = mapping.reduction;
  if (lanes > 1) reduction.reduce = in_warp ? "reduce_lanes" : "reduce_block";
  reduction.reduce_sizes = fmt::format(", {}", in_warp ? lanes : lanes / 32);
  reduction.scratch = in_warp ? 0 : static_cast<std::size_t>(lanes) / 32;
  if (cluster > 1) {
    reduction.reduce = "reduce_cluster";
    reduction.expect = "expect_results";
    reduction.reduce_sizes += fmt::format(", {}", cluster);
    reduction.reduce_tail = ", rank";
    reduction.scratch += static_cast<std::size_t>(cluster) + 1;  // of all blocks, and their
                                                                 // mbarrier
    reduction.scratch_offset = RowReduction::kClusterScratch;
    mapping.behind_preload.push_back("cluster_wait();");
  }
  return mapping;
}

}  // namespace sinter::codegen
