// Running combinations along rows: a row's threads take it part by part, a vector each. What comes
// before a thread is what its lanes below hold, and all parts before.
#include <fmt/format.h>

#include "codegen/families/loops/row/row_schedule.h"
#include "codegen/families/loops/scan/scan_schedule.h"

namespace sinter::codegen {

ThreadMapping map_scan(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args) {
  // Rows are placed as for reductions; only their elements are walked in another way.
  ThreadMapping mapping = map_row(analysis, schedule, args);
  mapping.loop_lines.clear();
  mapping.predicate.clear();
  const int lanes = schedule.threads_x;
  const ir::Dim vectors = count_vectors(analysis, schedule, mapping.loop_dims);
  const bool wide = needs_wide(analysis, vectors);
  const char* type = wide ? "u64" : "u32";
  const std::string lane = lanes > 1 ? "lane" : "0";
  if (vectors.is_constant() && vectors.value() <= lanes) {
    mapping.loop_lines.push_back(fmt::format("const {} e = {};", type, lane));
  } else {
    mapping.pass_header = fmt::format("for ({0} part = 0; part < {0}({1}); part += {2})", type,
                                      args.dim(vectors), lanes);
    mapping.loop_lines.push_back(fmt::format("const {} e = part + {};", type, lane));
  }
  if (!(vectors.is_constant() && vectors.value() % lanes == 0))
    mapping.predicate = fmt::format("e < {}({})", type, args.dim(vectors));
  split_index(analysis, args, mapping.loop_dims, "e", wide, mapping, mapping.loop_lines);
  mapping.scan = lanes == 1 ? "scan_thread" : lanes <= 32 ? "scan_lanes" : "scan_block";
  if (lanes > 1) mapping.scan_sizes = fmt::format(", {}", lanes <= 32 ? lanes : lanes / 32);
  return mapping;
}

}  // namespace sinter::codegen
