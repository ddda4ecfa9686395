// Pointwise regions some of whose loads lie across what they store: a block fills tiles in shared
// memory along the one dimension, then computes and stores along the other.
#include <fmt/format.h>

#include "codegen/families/loops/schedule_parts.h"
#include "codegen/families/loops/transpose/transpose_schedule.h"

namespace sinter::codegen {

namespace {

/// Neighbouring threads take neighbouring vectors of `lanes` side by side, then the next row.
void walk_tile(const ProgramAnalysis& analysis, Arguments& args, ThreadMapping& mapping,
               const char* along, const char* across, int lanes) {
  const Schedule& schedule = *mapping.schedule;
  const Turn& turn = schedule.turn;
  const int rows = schedule.threads() / lanes;
  if (mapping.unrolled() || along[0] == 'y')  // which has a scope of its own
    mapping.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", schedule.unroll);
  mapping.loop_lines.push_back(
      fmt::format("const u32 {} = threadIdx.x % {}{};", along, lanes,
                  schedule.vector > 1 ? fmt::format(" * {}", schedule.vector) : ""));
  mapping.loop_lines.push_back(
      fmt::format("const u32 {} = threadIdx.x / {}{};", across, lanes,
                  mapping.unrolled() ? fmt::format(" + k * {}", rows) : ""));
  for (const auto& [dim, place, size] :
       {std::tuple(turn.to, "x", turn.width), std::tuple(turn.from, "y", turn.height)}) {
    const auto d = static_cast<std::size_t>(dim);
    const char* type = mapping.indices[d].wide ? "i64" : "i32";
    mapping.loop_lines.push_back(
        fmt::format("const {0} i{1} = first{1} + {0}({2});", type, dim, place));
    const ir::Dim& extent = analysis.extent(d);
    if (extent.is_constant() && extent.value() % size == 0) continue;
    mapping.predicate += fmt::format("{}i{} < {}({})", mapping.predicate.empty() ? "" : " && ", dim,
                                     type, args.dim(extent));
  }
}

}  // namespace

ThreadMapping map_transpose(const ProgramAnalysis& analysis, const Schedule& schedule,
                            Arguments& args) {
  const Turn& turn = schedule.turn;
  const DimSet tile =
      dim_bit(static_cast<std::size_t>(turn.from)) | dim_bit(static_cast<std::size_t>(turn.to));
  ThreadMapping mapping;
  mapping.schedule = &schedule;
  mapping.loop_dims = tile;
  mapping.thread_dims = analysis.outer_dims() & ~tile;
  mapping.indices.resize(analysis.rank());
  // Blocks take tiles along the stores first, then along the loads, then the other dimensions.
  std::string rest = analysis.request().block;
  mapping.blocks = analysis.size_of_dims(mapping.thread_dims);
  for (const auto& [dim, size] :
       {std::pair(turn.to, turn.width), std::pair(turn.from, turn.height)}) {
    const auto d = static_cast<std::size_t>(dim);
    const ir::Dim tiles = ir::ceil_div(analysis.extent(d), size, analysis.exprs().ranges());
    mapping.blocks = mapping.blocks * tiles;
    LoopIndex& index = mapping.indices[d];
    index.text = fmt::format("i{}", dim);
    index.wide = needs_wide(analysis, analysis.extent(d) + ir::Dim(size));
    index.max = std::nullopt;
    if (const auto most = upper(analysis, analysis.extent(d))) index.max = *most - 1;
    const std::string count = fmt::format("u32({})", args.dim(tiles));
    mapping.prologue.push_back(fmt::format("const u32 q{} = quotient({}, {});", dim, rest, count));
    mapping.prologue.push_back(fmt::format("const {0} first{1} = {0}({2} - q{1} * {3}) * {4};",
                                           index.wide ? "i64" : "i32", dim, rest, count, size));
    rest = fmt::format("q{}", dim);
  }
  split_index(analysis, args, mapping.thread_dims, rest, false, mapping, mapping.prologue);

  auto turned_schedule = std::make_shared<Schedule>(schedule);
  turned_schedule->vector = turn.vector;
  turned_schedule->vector_dim = turn.vector > 1 ? turn.from : -1;
  turned_schedule->unroll = turn.width * turn.height / turn.vector / schedule.threads();
  auto turned = std::make_shared<ThreadMapping>(mapping);
  turned->schedule = turned_schedule.get();
  walk_tile(analysis, args, *turned, "y", "x", turn.height / turn.vector);
  walk_tile(analysis, args, mapping, "x", "y", turn.width / schedule.vector);
  mapping.turned = std::move(turned);
  mapping.turned_schedule = std::move(turned_schedule);
  mapping.block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
  mapping.leader = "threadIdx.x == 0";
  return mapping;
}

}  // namespace sinter::codegen
