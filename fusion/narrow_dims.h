// SPDX-License-Identifier: Apache-2.0
// Restricts a model to a part of its dimensions' ranges.
#pragma once

#include <map>
#include <string>

#include "fusion/context.h"

namespace sinter::fusion {

/// `graph` with symbols limited to `ranges`; a symbol with a single value becomes a constant.
/// Throws Error(kUsage) for an unknown symbol, a range that exceeds the symbol's own, and a graph
/// that is already fused.
Graph narrow_dims(const Graph& graph, const std::map<std::string, Range>& ranges);

}  // namespace sinter::fusion
