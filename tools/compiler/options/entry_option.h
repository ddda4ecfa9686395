// --entry: entry points of a plan.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::tools {

/// Dimensions for which a plan gets steps of its own.
struct EntryLimits {
  std::string name;
  std::map<std::string, ir::Range> limits;
};

/// "prefill:sequence=2..2048", "decode:sequence=1,batch=1". Throws Error(kUsage) quoting what is
/// wrong, and for a name that is given twice.
std::vector<EntryLimits> parse_entries(const std::vector<std::string>& texts);

/// The least ranges that hold all entry points, of the symbols that some of them limits. An entry
/// point that does not speak of a symbol takes all that `model` does.
std::map<std::string, ir::Range> hull_of(std::span<const EntryLimits> entries,
                                         const ir::Graph& model);

}  // namespace sinter::tools
