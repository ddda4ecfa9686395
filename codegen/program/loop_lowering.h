// SPDX-License-Identifier: Apache-2.0
// Loop programs of fused regions of kinds "pointwise", "reduction", "scatter" and "scan".
#pragma once

#include <string>
#include <vector>

#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {

/// Lowers `body`; `inputs` and `outputs` are the plan buffers of its inputs and outputs. Merges
/// adjacent loops that every access strides alike. Views become addresses; composites must have
/// been decomposed. Dimensions of reductions or scans form the row and become the innermost loops;
/// a reverse scan reverses its loop. Throws Error(kUnsupported) that names the node.
LoopProgramT lower_region(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs);

/// As several programs, each for a part of the elements or rows, so that none selects among the
/// sources of a concatenation. One program if none would, or if the sources' sizes are not
/// constant.
std::vector<LoopProgramT> lower_region_parts(const Graph& body, Buffers inputs, Buffers outputs,
                                             ExprTable& exprs);

/// A body with a Scatter and no reductions loops over the updates. Dimensions along which no index
/// tensor counts, so that elements may collide, form the row. Other outputs have the updates'
/// shape. Scatters after reductions replace elements, or rows of them. The output's buffer must
/// hold the data beforehand: `result` is that output, `data` the input.
struct ScatteredValues {
  std::size_t data = 0, result = 0;
};
std::vector<ScatteredValues> scattered_values(const Graph& body);

/// Lowers over the elements of `space`; `inner` marks the row's dimensions. Outputs have that
/// shape, the shape of its rows, or are views of these. Row loops and element loops are not merged,
/// so that they stay distinct even without reductions.
LoopProgramT lower_region_over(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                               const Shape& space, const std::vector<bool>& inner);

/// A listing with one instruction per line, for `inspect` and tests.
std::string print_loop_program(const LoopProgramT& program, const ExprTable& exprs);

}  // namespace sinter::codegen
