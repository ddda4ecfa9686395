// Fused regions of families "pointwise" and "reduction" as loop programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/lowering/expr_table.h"
#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Lowers `body`. `inputs` and `outputs` are the plan buffers of the body's inputs and outputs.
/// Adjacent loop dimensions that every access walks alike are merged. Views become addresses,
/// composites must have been decomposed. Row dimensions are those that the body's reductions run
/// over, moved innermost in their order. Throws Error(kUnsupported) naming the node.
plan::fb::LoopProgramT lower_region(const ir::Graph& body, std::span<const std::uint32_t> inputs,
                                    std::span<const std::uint32_t> outputs, ExprTable& exprs);

/// A readable listing, one instruction a line, for `inspect` and for tests.
std::string print_loop_program(const plan::fb::LoopProgramT& program, const ExprTable& exprs);

}  // namespace sinter::codegen
