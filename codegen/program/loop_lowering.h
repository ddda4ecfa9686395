// Fused regions of families "pointwise", "reduction", "scatter" and "scan" as loop programs.
#pragma once

#include <string>
#include <vector>

#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {

/// Lowers `body`. `inputs` and `outputs` are the plan buffers of the body's inputs and outputs.
/// Adjacent loop dimensions that every access walks alike are merged. Views become addresses,
/// composites must have been decomposed. Row dimensions are those that the body's reductions or
/// scans run over, moved innermost in their order; what is scanned from the end has its loop begin
/// there. Throws Error(kUnsupported) naming the node.
LoopProgramT lower_region(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs);

/// The same as programs that each compute a part of the elements or rows, so that none of them asks
/// which source of a concatenation an element comes from. One program where nothing asks that, or
/// where the sources' sizes are not constant.
std::vector<LoopProgramT> lower_region_parts(const Graph& body, Buffers inputs, Buffers outputs,
                                             ExprTable& exprs);

/// A body with a Scatter and no reductions is lowered over the loops of its updates; those along
/// which no index tensor counts, so that two elements may meet, are the row. Other outputs have the
/// updates' shape. Scatters behind reductions replace by elements or by rows of these. A Scatter's
/// output's buffer must hold the data beforehand: this says which output that is, and which input
/// is the data.
struct ScatteredValues {
  std::size_t data = 0, result = 0;
};
std::vector<ScatteredValues> scattered_values(const Graph& body);

/// The same over the elements of `space`, of which `inner` dimensions form the row that reductions
/// run over; outputs are of that shape, of its rows, or views of such. No row loop is merged with
/// an element loop, so that both can be told apart without reductions too.
LoopProgramT lower_region_over(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                               const Shape& space, const std::vector<bool>& inner);

/// A readable listing, one instruction a line, for `inspect` and for tests.
std::string print_loop_program(const LoopProgramT& program, const ExprTable& exprs);

}  // namespace sinter::codegen
