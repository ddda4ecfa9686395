// Pointwise regions some of whose loads lie across what they store: a block fills tiles in shared
// memory along the one dimension, then computes and stores along the other.
#include <fmt/format.h>

#include "codegen/families/loops/schedule_parts.h"
#include "codegen/families/loops/transpose/transpose_schedule.h"

namespace sinter::codegen {

namespace {

/// Neighbouring threads take neighbouring vectors of `lanes` side by side, then the next row.
void walk_tile(const ProgramAnalysis& analysis, Arguments& args, Layout& layout, const char* along,
               const char* across, int lanes) {
  const Schedule& schedule = *layout.schedule;
  const Turn& turn = schedule.turn;
  const int rows = schedule.threads() / lanes;
  if (layout.unrolled() || along[0] == 'y')  // which has a scope of its own
    layout.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", schedule.unroll);
  layout.loop_lines.push_back(
      fmt::format("const u32 {} = threadIdx.x % {}{};", along, lanes,
                  schedule.vector > 1 ? fmt::format(" * {}", schedule.vector) : ""));
  layout.loop_lines.push_back(fmt::format("const u32 {} = threadIdx.x / {}{};", across, lanes,
                                          layout.unrolled() ? fmt::format(" + k * {}", rows) : ""));
  for (const auto& [dim, place, size] :
       {std::tuple(turn.to, "x", turn.width), std::tuple(turn.from, "y", turn.height)}) {
    const auto d = static_cast<std::size_t>(dim);
    const char* type = layout.indices[d].wide ? "i64" : "i32";
    layout.loop_lines.push_back(
        fmt::format("const {0} i{1} = first{1} + {0}({2});", type, dim, place));
    const ir::Dim& extent = analysis.extent(d);
    if (extent.is_constant() && extent.value() % size == 0) continue;
    layout.predicate += fmt::format("{}i{} < {}({})", layout.predicate.empty() ? "" : " && ", dim,
                                    type, args.dim(extent));
  }
}

}  // namespace

Layout layout_transpose(const ProgramAnalysis& analysis, const Schedule& schedule,
                        Arguments& args) {
  const Turn& turn = schedule.turn;
  const DimSet tile =
      dim_bit(static_cast<std::size_t>(turn.from)) | dim_bit(static_cast<std::size_t>(turn.to));
  Layout layout;
  layout.schedule = &schedule;
  layout.loop_dims = tile;
  layout.thread_dims = analysis.outer_dims() & ~tile;
  layout.indices.resize(analysis.rank());
  // Blocks take tiles along the stores first, then along the loads, then the other dimensions.
  std::string rest = analysis.request().block;
  layout.blocks = analysis.size_of_dims(layout.thread_dims);
  for (const auto& [dim, size] :
       {std::pair(turn.to, turn.width), std::pair(turn.from, turn.height)}) {
    const auto d = static_cast<std::size_t>(dim);
    const ir::Dim tiles = ir::ceil_div(analysis.extent(d), size, analysis.exprs().ranges());
    layout.blocks = layout.blocks * tiles;
    LoopIndex& index = layout.indices[d];
    index.text = fmt::format("i{}", dim);
    index.wide = needs_wide(analysis, analysis.extent(d) + ir::Dim(size));
    index.max = std::nullopt;
    if (const auto most = upper(analysis, analysis.extent(d))) index.max = *most - 1;
    const std::string count = fmt::format("u32({})", args.dim(tiles));
    layout.prologue.push_back(fmt::format("const u32 q{} = quotient({}, {});", dim, rest, count));
    layout.prologue.push_back(fmt::format("const {0} first{1} = {0}({2} - q{1} * {3}) * {4};",
                                          index.wide ? "i64" : "i32", dim, rest, count, size));
    rest = fmt::format("q{}", dim);
  }
  split_index(analysis, args, layout.thread_dims, rest, false, layout, layout.prologue);

  auto turned_schedule = std::make_shared<Schedule>(schedule);
  turned_schedule->vector = turn.vector;
  turned_schedule->vector_dim = turn.vector > 1 ? turn.from : -1;
  turned_schedule->unroll = turn.width * turn.height / turn.vector / schedule.threads();
  auto turned = std::make_shared<Layout>(layout);
  turned->schedule = turned_schedule.get();
  walk_tile(analysis, args, *turned, "y", "x", turn.height / turn.vector);
  walk_tile(analysis, args, layout, "x", "y", turn.width / schedule.vector);
  layout.turned = std::move(turned);
  layout.turned_schedule = std::move(turned_schedule);
  layout.block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
  layout.leader = "threadIdx.x == 0";
  return layout;
}

}  // namespace sinter::codegen
