// SPDX-License-Identifier: Apache-2.0
// Scans along rows: a row's threads process it part by part, one vector each. A thread's prefix is
// the result over its lower lanes and over all earlier parts.
#include <fmt/format.h>

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

ThreadMapping map_scan(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args) {
  // Rows are mapped as for reductions; only the loop over elements differs.
  ThreadMapping mapping = map_row(analysis, schedule, args);
  VectorLoop& loop = mapping.loop;
  loop.lines.clear();
  loop.predicate.clear();
  const int lanes = schedule.threads_x;
  const ir::Dim vectors = count_vectors(analysis, schedule, mapping.loop_dims);
  const bool wide = needs_wide(analysis, vectors);
  const char* type = count_type(wide);
  const std::string lane = lanes > 1 ? "lane" : "0";
  const bool one_part = vectors.is_constant() && vectors.value() <= lanes;
  if (!one_part)
    mapping.passes.header = fmt::format("for ({0} part = 0; part < {0}({1}); part += {2})", type,
                                        args.dim(vectors), lanes);
  loop.lines.push_back(fmt::format("const {} e = {}{};", type, one_part ? "" : "part + ", lane));
  if (!(vectors.is_constant() && vectors.value() % lanes == 0))
    loop.predicate = fmt::format("e < {}({})", type, args.dim(vectors));
  split_index(analysis, args, mapping.loop_dims, "e", wide, mapping, loop.lines);
  mapping.reduction.scan = lanes == 1 ? "scan_thread" : lanes <= 32 ? "scan_lanes" : "scan_block";
  if (lanes > 1)
    mapping.reduction.scan_sizes = fmt::format(", {}", lanes <= 32 ? lanes : lanes / 32);
  return mapping;
}

}  // namespace sinter::codegen
