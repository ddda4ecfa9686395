// Rows whose elements lie next to each other: `threads_x` threads share a row. Up to a warp they
// reduce by shuffles, and a block holds several rows; beyond that a block is a row, or the blocks
// of a cluster are. Rows that fit are read once and stay in registers until they are written.
#include <fmt/format.h>

#include "codegen/families/loops/row/row_schedule.h"

namespace sinter::codegen {

namespace {

constexpr std::uint32_t kClusterScratch = 128;  // offset in dynamic shared memory: not zero

/// The elements of rows of one dimension that no whole vector has.
void add_tail(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args,
              const std::string& lane, ThreadMapping& mapping) {
  const auto tail = make_tail(mapping, schedule, schedule.unroll);
  const ir::Dim length = analysis.size_of_dims(mapping.loop_dims);
  const bool wide = needs_wide(analysis, length);
  const char* type = wide ? "u64" : "u32";
  const ir::Dim whole = count_vectors(analysis, schedule, mapping.loop_dims);
  tail->loop_header =
      fmt::format("for ({0} e = {0}({1}) * {2} + {3}; e < {0}({4}); e += {5})", type,
                  args.dim(whole), schedule.vector, lane, args.dim(length), schedule.threads_x);
  split_index(analysis, args, mapping.loop_dims, "e", wide, *tail, tail->loop_lines);
  mapping.tail = tail;
}

}  // namespace

std::uint32_t row_shared_bytes(const ProgramAnalysis& analysis, const ThreadMapping& mapping) {
  if (mapping.scratch_offset == 0) return 0;
  std::uint32_t bytes = mapping.scratch_offset;
  for (std::size_t i = 0; i < analysis.instr_count(); ++i)
    if (analysis.value(i).live && analysis.instr(i).kind == plan::fb::InstrKind::Reduce)
      bytes += static_cast<std::uint32_t>(mapping.scratch) * ThreadMapping::kScratchValue;
  return bytes;
}

ThreadMapping map_row(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args) {
  ThreadMapping mapping;
  mapping.schedule = &schedule;
  mapping.thread_dims = analysis.outer_dims();
  mapping.loop_dims = analysis.inner_dims();
  mapping.indices.resize(analysis.rank());
  const int lanes = schedule.threads_x, rows_of_block = schedule.threads_y;
  const bool in_warp = lanes <= 32;

  const ir::Dim rows = analysis.size_of_dims(mapping.thread_dims);
  const bool wide_rows = needs_wide(analysis, rows);
  const char* row_type = wide_rows ? "u64" : "u32";
  std::string block = block_text(analysis, wide_rows);
  auto& prologue = mapping.prologue;
  const int cluster = schedule.cluster;
  if (cluster > 1) {
    prologue.push_back("SINTER_DYNAMIC_SHARED(shared);");
    prologue.push_back(fmt::format("const u32 rank = {} % {};", analysis.request().block, cluster));
    block += fmt::format(" / {}", cluster);
  }
  if (!in_warp) {
    prologue.push_back("const i32 lane = threadIdx.x;");
    if (mapping.thread_dims != 0)
      prologue.push_back(fmt::format("const {} row = {};", row_type, block));
  } else {
    if (lanes > 1) prologue.push_back(fmt::format("const i32 lane = threadIdx.x % {};", lanes));
    const std::string row = fmt::format("{} * {} + threadIdx.x{}", block, rows_of_block,
                                        lanes > 1 ? fmt::format(" / {}", lanes) : "");
    const std::string end = fmt::format("{}({})", row_type, args.dim(rows));
    if (rows.is_constant() && rows.value() % rows_of_block == 0) {
      prologue.push_back(fmt::format("const {} row = {};", row_type, row));
    } else if (lanes == 32) {  // whole warps leave: no shuffle misses them
      prologue.push_back(fmt::format("const {} row = {};", row_type, row));
      prologue.push_back(fmt::format("if (row >= {}) return;", end));
    } else {  // threads without a row repeat row 0, as the shuffles need them, and write nothing
      prologue.push_back(fmt::format("const bool live = {} < {};", row, end));
      prologue.push_back(fmt::format("const {} row = live ? {} : 0;", row_type, row));
      mapping.live_row = "live";
    }
  }
  split_index(analysis, args, mapping.thread_dims, "row", wide_rows, mapping, prologue);

  const ir::Dim vectors = count_vectors(analysis, schedule, mapping.loop_dims);
  const std::string lane = lanes > 1 ? "lane" : "0";
  if (schedule.looped()) {
    const bool wide = needs_wide(analysis, vectors);
    const char* type = wide ? "u64" : "u32";
    const int ahead = schedule.ahead;
    const std::string loop = "for ({0} {1} = {2}; {1} < {0}({3}); {1} += {4})";
    if (ahead > 1) {
      mapping.group_header =
          fmt::format(fmt::runtime(loop), type, "first", lane, args.dim(vectors), lanes * ahead);
      mapping.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", ahead);
      mapping.loop_lines.push_back(fmt::format("const {} e = first + k * {};", type, lanes));
      mapping.predicate = fmt::format("e < {}({})", type, args.dim(vectors));
    } else {
      mapping.loop_header =
          fmt::format(fmt::runtime(loop), type, "e", lane, args.dim(vectors), lanes);
    }
    split_index(analysis, args, mapping.loop_dims, "e", wide, mapping, mapping.loop_lines);
    if (schedule.tail) add_tail(analysis, schedule, args, lane, mapping);
  } else {
    const std::int64_t of_block = std::int64_t{lanes} * schedule.unroll;
    const std::int64_t bound = of_block * cluster;
    if (mapping.unrolled())
      mapping.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", schedule.unroll);
    const bool exact = vectors.is_constant() && vectors.value() == bound;
    if (!exact || mapping.loop_dims != 0)
      mapping.loop_lines.push_back(fmt::format(
          "const u32 e = {}{}{};", lane, cluster > 1 ? fmt::format(" + rank * {}", of_block) : "",
          mapping.unrolled() ? fmt::format(" + k * {}", lanes) : ""));
    if (!exact) mapping.predicate = fmt::format("e < u32({})", args.dim(vectors));
    split_index(analysis, args, mapping.loop_dims, "e", false, mapping, mapping.loop_lines, bound);
  }

  mapping.leader = cluster > 1 ? "lane == 0 && rank == 0" : lanes > 1 ? "lane == 0" : "";
  if (lanes > 1) mapping.reduce = in_warp ? "reduce_lanes" : "reduce_block";
  mapping.reduce_sizes = fmt::format(", {}", in_warp ? lanes : lanes / 32);
  mapping.scratch = in_warp ? 0 : static_cast<std::size_t>(lanes) / 32;
  if (cluster > 1) {
    mapping.reduce = "reduce_cluster";
    mapping.reduce_sizes += fmt::format(", {}", cluster);
    mapping.reduce_tail = ", rank";
    mapping.scratch += static_cast<std::size_t>(cluster) + 1;  // of all blocks, and their arrival
    mapping.scratch_offset = kClusterScratch;
    mapping.behind_preload.push_back("cluster_wait();");
  }
  mapping.blocks = ir::ceil_div(rows, rows_of_block, analysis.exprs().ranges()) * ir::Dim(cluster);
  mapping.block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
  return mapping;
}

}  // namespace sinter::codegen
