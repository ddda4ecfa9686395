// Reshapes in the body of a region.
#pragma once

#include "ir/graph.h"

namespace sinter::codegen {

/// What reshapes in `body` lead back to.
ir::ValueId root_of(const ir::Graph& body, ir::ValueId value);

}  // namespace sinter::codegen
