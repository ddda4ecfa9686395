// Running combinations along rows: a row's threads take it part by part, a vector each. What comes
// before a thread is what its lanes below hold, and all parts before.
#include <fmt/format.h>

#include "codegen/families/loops/row/row_schedule.h"
#include "codegen/families/loops/scan/scan_schedule.h"

namespace sinter::codegen {

Layout layout_scan(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args) {
  // Rows are placed as for reductions; only their elements are walked in another way.
  Layout layout = layout_row(analysis, schedule, args);
  layout.loop_lines.clear();
  layout.predicate.clear();
  const int lanes = schedule.threads_x;
  const ir::Dim vectors = count_vectors(analysis, schedule, layout.loop_dims);
  const bool wide = needs_wide(analysis, vectors);
  const char* type = wide ? "u64" : "u32";
  const std::string lane = lanes > 1 ? "lane" : "0";
  if (vectors.is_constant() && vectors.value() <= lanes) {
    layout.loop_lines.push_back(fmt::format("const {} e = {};", type, lane));
  } else {
    layout.pass_header = fmt::format("for ({0} part = 0; part < {0}({1}); part += {2})", type,
                                     args.dim(vectors), lanes);
    layout.loop_lines.push_back(fmt::format("const {} e = part + {};", type, lane));
  }
  if (!(vectors.is_constant() && vectors.value() % lanes == 0))
    layout.predicate = fmt::format("e < {}({})", type, args.dim(vectors));
  split_index(analysis, args, layout.loop_dims, "e", wide, layout, layout.loop_lines);
  layout.scan = lanes == 1 ? "scan_thread" : lanes <= 32 ? "scan_lanes" : "scan_block";
  if (lanes > 1) layout.scan_sizes = fmt::format(", {}", lanes <= 32 ? lanes : lanes / 32);
  return layout;
}

}  // namespace sinter::codegen
