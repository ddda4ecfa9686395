// SPDX-License-Identifier: Apache-2.0
// The loops of a region's body, taken from its reductions, scans and scatters, or else from its
// output. Also traces reshapes back to their source.
#pragma once

#include <vector>

#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"
#include "codegen/program/index_space.h"

namespace sinter::codegen {

/// The dimensions of a reduction's operand by role.
struct ReduceShape {
  std::vector<bool> reduced;
  Shape kept_extents, reduced_extents;
};
ReduceShape reduce_shape(const Graph& body, const Node& node);

/// The body's first Scatter; null if there is none.
const Node* scatter_of(const Graph& body);

/// The row has the dimensions of reductions and scans; without these, those along which scattered
/// elements may collide.
LoopSpace space_of(const Graph& body, const ExprTable& exprs);

/// The value that reshapes in `body` lead back to.
ValueId root_of(const Graph& body, ValueId value);

}  // namespace sinter::codegen
