// Rows that lie next to each other while their elements are far apart: neighbouring threads take
// neighbouring rows or vectors of them, threadIdx.y walks the elements.
#include <fmt/format.h>

#include "codegen/families/loops/column/column_schedule.h"

namespace sinter::codegen {

ThreadMapping map_column(const ProgramAnalysis& analysis, const Schedule& schedule,
                         Arguments& args) {
  ThreadMapping mapping;
  mapping.schedule = &schedule;
  const DimSet vector_dim =
      schedule.vector_dim < 0 ? 0 : dim_bit(static_cast<std::size_t>(schedule.vector_dim));
  mapping.thread_dims = analysis.outer_dims() & ~vector_dim;
  mapping.loop_dims = analysis.inner_dims() | vector_dim;
  mapping.indices.resize(analysis.rank());
  const int x = schedule.threads_x, y = schedule.threads_y;

  const ir::Dim rows = count_vectors(analysis, schedule, analysis.outer_dims());
  const bool wide_rows = needs_wide(analysis, rows);
  const char* row_type = wide_rows ? "u64" : "u32";
  const std::string row = fmt::format("{} * {} + threadIdx.x", block_text(analysis, wide_rows), x);
  if (rows.is_constant() && rows.value() % x == 0) {
    mapping.prologue.push_back(fmt::format("const {} row = {};", row_type, row));
  } else {  // threads without a row repeat row 0, as the barriers need them, and write nothing
    mapping.prologue.push_back(
        fmt::format("const bool live = {} < {}({});", row, row_type, args.dim(rows)));
    mapping.prologue.push_back(fmt::format("const {} row = live ? {} : 0;", row_type, row));
    mapping.live_row = "live";
  }
  split_index(analysis, args, analysis.outer_dims(), "row", wide_rows, mapping, mapping.prologue);

  const DimSet inner = analysis.inner_dims();
  const ir::Dim elements = analysis.size_of_dims(inner);
  if (schedule.looped()) {
    const bool wide = needs_wide(analysis, elements);
    const char* type = wide ? "u64" : "u32";
    const int ahead = schedule.ahead;
    const std::string loop = "for ({0} {1} = threadIdx.y; {1} < {0}({2}); {1} += {3})";
    if (ahead > 1) {
      mapping.group_header =
          fmt::format(fmt::runtime(loop), type, "first", args.dim(elements), y * ahead);
      mapping.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", ahead);
      mapping.loop_lines.push_back(fmt::format("const {} e = first + k * {};", type, y));
      if (!ir::is_multiple_of(elements, y * ahead))
        mapping.predicate = fmt::format("e < {}({})", type, args.dim(elements));
    } else {
      mapping.loop_header = fmt::format(fmt::runtime(loop), type, "e", args.dim(elements), y);
    }
    split_index(analysis, args, inner, "e", wide, mapping, mapping.loop_lines);
  } else {
    const std::int64_t bound = std::int64_t{y} * schedule.unroll;
    if (mapping.unrolled())
      mapping.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", schedule.unroll);
    const bool exact = elements.is_constant() && elements.value() == bound;
    if (!exact || inner != 0)
      mapping.loop_lines.push_back(fmt::format(
          "const u32 e = threadIdx.y{};", mapping.unrolled() ? fmt::format(" + k * {}", y) : ""));
    if (!exact) mapping.predicate = fmt::format("e < u32({})", args.dim(elements));
    split_index(analysis, args, inner, "e", false, mapping, mapping.loop_lines, bound);
  }

  mapping.leader = y > 1 ? "threadIdx.y == 0" : "";
  if (y > 1) mapping.reduce = schedule.vector > 1 ? "reduce_columns" : "reduce_column";
  mapping.reduce_sizes = fmt::format(", {}, {}", x, y);
  mapping.scratch = y > 1 ? static_cast<std::size_t>(x * y * schedule.vector) : 0;
  mapping.blocks = ir::ceil_div(rows, x, analysis.exprs().ranges());
  mapping.block = {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 1};
  return mapping;
}

}  // namespace sinter::codegen
