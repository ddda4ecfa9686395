// Family "horizontal": many small regions, one kernel over a table of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/plan/expr_table.h"
#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Regions that differ in their sizes and buffers alone have one program, over symbols for the
/// sizes in which they differ; rows of few different lengths, a program for each.
struct HorizontalKind {
  plan::fb::LoopProgramT program;  // its buffers are numbered from 0
  std::vector<DType> types;        // of its buffers
};
struct HorizontalPart {
  std::size_t kind = 0;
  std::vector<std::uint32_t> buffers;                 // the plan's, for each of the kind's
  std::map<std::string, ir::Dim, std::less<>> sizes;  // of the kind's symbols, over the plan's
};
struct HorizontalProgram {
  std::shared_ptr<ExprTable> exprs;  // of the kinds
  std::vector<HorizontalKind> kinds;
  std::vector<HorizontalPart> parts;

  ir::Dim flops() const;
};

/// Everything about a program but which buffers of the plan it works on.
std::string print_horizontal(const HorizontalProgram& program);

/// `body`: fused regions of families "pointwise" and "reduction" that do not depend on each other,
/// reshapes of their results, and concatenations of nothing but results along an outermost axis,
/// which are made by the regions' own stores. Sizes may be symbolic.
/// `inputs`, `outputs`: the plan's buffers. Throws Error(kUnsupported) for anything else.
HorizontalProgram lower_horizontal(const ir::Graph& body, std::span<const std::uint32_t> inputs,
                                   std::span<const std::uint32_t> outputs);

}  // namespace sinter::codegen
