// SPDX-License-Identifier: Apache-2.0
// Entry points of a plan.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "ir/graph.h"

namespace sinter::tools {

/// Dimensions for which a plan gets steps of its own.
struct EntryLimits {
  std::string name;
  std::map<std::string, ir::Range> limits;
};

/// Throws Error(kUsage) for a name that is given twice and limits that are no ranges.
std::vector<EntryLimits> limits_of(std::span<const EntryOptions> options);

/// parse_entry's text, and the parts of it.
std::string to_text(const EntryLimits& entry);
std::vector<std::string> dim_texts(const EntryLimits& entry);

/// The least ranges that hold all entry points, of the symbols that some of them limits. An entry
/// point that does not speak of a symbol takes all that `model` does.
std::map<std::string, ir::Range> hull_of(std::span<const EntryLimits> entries,
                                         const ir::Graph& model);

}  // namespace sinter::tools
