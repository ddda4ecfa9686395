// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/thread_mapping.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

namespace {

ir::Dim vectors_of_dim(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t d) {
  const ir::Dim& extent = analysis.extent(d);
  if (schedule.tile(d) > 1)
    return ir::ceil_div(extent, schedule.tile(d), analysis.exprs().ranges());
  return static_cast<int>(d) == schedule.vector_dim ? ir::floor_div(extent, schedule.vector)
                                                    : extent;
}

}  // namespace

ThreadMapping start_mapping(const ProgramAnalysis& analysis, const Schedule& schedule,
                            DimSet thread_dims, DimSet loop_dims) {
  ThreadMapping mapping{thread_dims, loop_dims};
  mapping.indices.resize(analysis.rank());
  mapping.loop.schedule = schedule;
  if (schedule.unroll > 1)
    mapping.loop.header = fmt::format("for (int k = 0; k < {}; ++k)", schedule.unroll);
  mapping.block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
  return mapping;
}

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

void split_index(const ProgramAnalysis& analysis, Arguments& args, DimSet dims,
                 const std::string& flat, bool wide, ThreadMapping& mapping,
                 std::vector<std::string>& lines, std::optional<std::int64_t> bound) {
  const Schedule& schedule = mapping.schedule();
  std::string rest = flat;
  for (std::size_t d = analysis.rank(); d-- > 0;) {
    if ((dims & dim_bit(d)) == 0) continue;
    const bool outermost = (dims & (dim_bit(d) - 1)) == 0;
    const int step = schedule.tile(d) > 1                         ? schedule.tile(d)
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
    const std::string extent =
        fmt::format("{}({})", count_type(wide), args.dim(vectors_of_dim(analysis, schedule, d)));
    const std::string quotient = fmt::format("q{}", d);
    lines.push_back(
        fmt::format("const {} {} = quotient({}, {});", count_type(wide), quotient, rest, extent));
    lines.push_back(fmt::format("const {0} i{1} = {0}({2} - {3} * {4}){5};", type, d, rest,
                                quotient, extent, times));
    rest = quotient;
  }
}

VectorFunction map_vector(const ProgramAnalysis& analysis, const Schedule& schedule,
                          Arguments& args) {
  VectorFunction result;
  ThreadMapping& mapping = result.mapping;
  mapping = start_mapping(analysis, schedule, 0, analysis.outer_dims() | analysis.inner_dims());
  result.wide = needs_wide(analysis, count_vectors(analysis, schedule, mapping.loop_dims));
  split_index(analysis, args, mapping.loop_dims, "flat", result.wide, mapping, mapping.loop.lines);
  mapping.leader = "flat == 0";
  return result;
}

void place_rows(const ProgramAnalysis& analysis, Arguments& args, DimSet dims, std::string row,
                const ir::Dim& rows, int rows_of_block, bool may_leave, ThreadMapping& mapping) {
  auto& lines = mapping.prologue;
  const bool wide = needs_wide(analysis, rows);
  const char* type = count_type(wide);
  const bool exact = rows.is_constant() && rows.value() % rows_of_block == 0;
  if (!exact && !may_leave) {
    lines.push_back(fmt::format("const bool live = {} < {}({});", row, type, args.dim(rows)));
    row = fmt::format("live ? {} : 0", row);
    mapping.live_row = "live";
  }
  lines.push_back(fmt::format("const {} row = {};", type, row));
  if (!exact && may_leave)
    lines.push_back(fmt::format("if (row >= {}({})) return;", type, args.dim(rows)));
  split_index(analysis, args, dims, "row", wide, mapping, lines);
  mapping.blocks = ir::ceil_div(rows, rows_of_block, analysis.exprs().ranges());
}

void walk_row(const ProgramAnalysis& analysis, Arguments& args, DimSet dims,
              const std::string& first, int threads, int at_once, ThreadMapping& mapping) {
  VectorLoop& loop = mapping.loop;
  const int unroll = loop.schedule.unroll, ahead = loop.schedule.reduction().ahead;
  const ir::Dim vectors = count_vectors(analysis, loop.schedule, dims);
  const bool wide = unroll == 0 && needs_wide(analysis, vectors);
  const char* type = count_type(wide);
  std::optional<std::int64_t> bound;
  if (unroll == 0) {
    (ahead > 1 ? loop.group_header : loop.header) =
        fmt::format("for ({0} {1} = {2}; {1} < {0}({3}); {1} += {4})", type,
                    ahead > 1 ? "first" : "e", first, args.dim(vectors), threads * ahead);
    if (ahead > 1) {
      loop.header = fmt::format("for (int k = 0; k < {}; ++k)", ahead);
      loop.lines.push_back(fmt::format("const {} e = first + k * {};", type, threads));
      loop.predicate = fmt::format("e < {}({})", type, args.dim(vectors));
    }
  } else {
    bound = std::int64_t{at_once} * unroll;
    const bool exact = vectors.is_constant() && vectors.value() == *bound;
    if (!exact || dims != 0)
      loop.lines.push_back(fmt::format("const u32 e = {}{};", first,
                                       loop.unrolled() ? fmt::format(" + k * {}", threads) : ""));
    if (!exact) loop.predicate = fmt::format("e < u32({})", args.dim(vectors));
  }
  split_index(analysis, args, dims, "e", wide, mapping, loop.lines, bound);
}

void add_tail(const ProgramAnalysis& analysis, Arguments& args, std::string header,
              std::vector<std::string> lines, int unroll, bool wide, ThreadMapping& mapping) {
  Schedule scalar = mapping.schedule();
  scalar.vector = 1;
  scalar.unroll = unroll;
  scalar.vector_dim = -1;
  scalar.vector_access.assign(scalar.vector_access.size(), false);
  ThreadMapping elements = start_mapping(analysis, scalar, mapping.thread_dims, mapping.loop_dims);
  elements.loop.header = std::move(header);
  elements.loop.lines = std::move(lines);
  split_index(analysis, args, mapping.loop_dims, "e", wide, elements, elements.loop.lines);
  mapping.tail = std::move(elements.loop);
}

}  // namespace sinter::codegen
