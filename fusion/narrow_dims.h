// A model for a part of the dimensions that it takes.
#pragma once

#include <map>
#include <string>

#include "fusion/context.h"

namespace sinter::fusion {

/// `graph` for symbols within `ranges` alone: one with a single value becomes a constant wherever
/// it occurs. Throws Error(kUsage) for a symbol that the graph does not have, a range that is not
/// within its own, and a graph that is fused already.
Graph narrow_dims(const Graph& graph, const std::map<std::string, Range>& ranges);

}  // namespace sinter::fusion
