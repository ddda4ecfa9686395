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

/// Dimensions for which a plan has separate steps.
struct EntryLimits {
  std::string name;
  std::map<std::string, ir::Range> limits;
};

/// Throws Error(kUsage) for duplicate names and invalid ranges.
std::vector<EntryLimits> limits_of(std::span<const EntryOptions> options);

/// The inverse of parse_entry, and its parts.
std::string to_text(const EntryLimits& entry);
std::vector<std::string> dim_texts(const EntryLimits& entry);

/// The smallest ranges that cover all entry points, for symbols that at least one of them limits.
/// An entry point without a limit for a symbol has the full range in `model`.
std::map<std::string, ir::Range> hull_of(std::span<const EntryLimits> entries,
                                         const ir::Graph& model);

}  // namespace sinter::tools
