// Nodes that change states.
#pragma once

#include "ir/graph.h"

namespace sinter::fusion {

/// A region of kind "scatter" that replaces elements of a state that nothing else reads: it is
/// done in place and copies nothing.
bool changes_state(const ir::Graph& graph, const ir::Node& node);

}  // namespace sinter::fusion
