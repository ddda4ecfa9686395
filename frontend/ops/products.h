// What operators that multiply matrices share.
#pragma once

#include "frontend/node_context.h"

namespace sinter::frontend {

/// numpy.matmul(a, b).
ir::ValueId multiply_matrices(NodeContext& node, ir::ValueId a, ir::ValueId b);

}  // namespace sinter::frontend
