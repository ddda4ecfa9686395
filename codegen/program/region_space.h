// Which loops a region runs over: those of its reductions, scans and scatters, else its output's.
#pragma once

#include <vector>

#include "codegen/plan/expr_table.h"
#include "codegen/program/index_space.h"
#include "ir/graph.h"

namespace sinter::codegen {

/// The dimensions of a reduction's operand by role.
struct ReduceShape {
  std::vector<bool> reduced;
  ir::Shape kept_extents, reduced_extents;
};
ReduceShape reduce_shape(const ir::Graph& body, const ir::Node& node);

/// The body's Scatter; null if there is none.
const ir::Node* scatter_of(const ir::Graph& body);

/// Rows are what reductions and scans run over, and the dimensions along which scattered elements
/// may meet.
LoopSpace space_of(const ir::Graph& body, const ExprTable& exprs);

}  // namespace sinter::codegen
