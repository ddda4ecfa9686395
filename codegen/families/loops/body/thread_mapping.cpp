#include "codegen/families/loops/body/thread_mapping.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

namespace {

ir::Dim vectors_of_dim(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t d) {
  const ir::Dim& extent = analysis.extent(d);
  if (schedule.tile > 1 && static_cast<int>(d) == schedule.overlap.tile_dim)
    return ir::ceil_div(extent, schedule.tile, analysis.exprs().ranges());
  return static_cast<int>(d) == schedule.vector_dim ? ir::floor_div(extent, schedule.vector)
                                                    : extent;
}

}  // namespace

ir::Dim count_vectors(const ProgramAnalysis& analysis, const Schedule& schedule, DimSet dims) {
  ir::Dim count = 1;
  for (std::size_t d = 0; d < analysis.rank(); ++d)
    if ((dims & dim_bit(d)) != 0) count = count * vectors_of_dim(analysis, schedule, d);
  return count;
}

std::string block_text(const ProgramAnalysis& analysis, bool wide) {
  const std::string& block = analysis.request().block;
  return wide ? fmt::format("u64({})", block) : block;
}

bool needs_wide(const ProgramAnalysis& analysis, const ir::Dim& count) {
  const auto most = upper(analysis, count);
  return !most || *most > INT32_MAX;
}

std::shared_ptr<ThreadMapping> make_tail(const ThreadMapping& mapping, const Schedule& schedule,
                                         int unroll) {
  auto scalar = std::make_shared<Schedule>(schedule);
  scalar->vector = 1;
  scalar->unroll = unroll;
  scalar->vector_dim = -1;
  scalar->vector_access.assign(schedule.vector_access.size(), false);
  auto tail = std::make_shared<ThreadMapping>(mapping);
  tail->schedule = scalar.get();
  tail->tail_schedule = std::move(scalar);
  tail->is_tail = true;
  tail->group_header.clear();
  tail->predicate.clear();
  tail->loop_lines.clear();
  return tail;
}

void split_index(const ProgramAnalysis& analysis, Arguments& args, DimSet dims,
                 const std::string& flat, bool wide, ThreadMapping& mapping,
                 std::vector<std::string>& lines, std::optional<std::int64_t> bound) {
  const Schedule& schedule = *mapping.schedule;
  std::string rest = flat;
  for (std::size_t d = analysis.rank(); d-- > 0;) {
    if ((dims & dim_bit(d)) == 0) continue;
    const bool outermost = (dims & (dim_bit(d) - 1)) == 0;
    const bool tiled = schedule.tile > 1 && static_cast<int>(d) == schedule.overlap.tile_dim;
    const int step = tiled                                        ? schedule.tile
                     : static_cast<int>(d) == schedule.vector_dim ? schedule.vector
                                                                  : 1;
    LoopIndex& index = mapping.indices[d];
    index.text = fmt::format("i{}", d);
    index.max = upper(analysis, analysis.extent(d));
    if (bound) index.max = std::min(index.max.value_or(INT64_MAX), *bound * step);
    if (index.max) *index.max = std::max<std::int64_t>(*index.max - 1, 0);
    index.wide = wide && !(index.max && *index.max < INT32_MAX);
    const char* type = index.wide ? "i64" : "i32";
    const std::string times = step > 1 ? fmt::format(" * {}", step) : "";
    if (outermost) {
      lines.push_back(fmt::format("const {0} i{1} = {0}({2}){3};", type, d, rest, times));
      return;
    }
    const char* flat_type = wide ? "u64" : "u32";
    const std::string extent =
        fmt::format("{}({})", flat_type, args.dim(vectors_of_dim(analysis, schedule, d)));
    const std::string quotient = fmt::format("q{}", d);
    lines.push_back(
        fmt::format("const {} {} = quotient({}, {});", flat_type, quotient, rest, extent));
    lines.push_back(fmt::format("const {0} i{1} = {0}({2} - {3} * {4}){5};", type, d, rest,
                                quotient, extent, times));
    rest = quotient;
  }
}

}  // namespace sinter::codegen
