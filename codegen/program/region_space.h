// Bodies of regions: which loops one runs over, those of its reductions, scans and scatters, else
// its output's; what reshapes lead back to.
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

/// Rows are what reductions and scans run over, and without either the dimensions along which
/// scattered elements may meet.
LoopSpace space_of(const Graph& body, const ExprTable& exprs);

/// What reshapes in `body` lead back to.
ValueId root_of(const Graph& body, ValueId value);

}  // namespace sinter::codegen
