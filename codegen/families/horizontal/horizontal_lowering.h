// SPDX-License-Identifier: Apache-2.0
// Family "horizontal": many small regions in one kernel.
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

/// Regions that differ only in sizes and buffers share a program, with symbols for the differing
/// sizes. Rows of few different lengths get a program for each length.
struct HorizontalKind {
  plan::fb::LoopProgramT program;  // buffers are numbered from 0
  std::vector<DType> types;        // of its buffers
};
struct HorizontalPart {
  std::size_t kind = 0;
  std::vector<std::uint32_t> buffers;                 // the plan's, for each buffer of the kind
  std::map<std::string, ir::Dim, std::less<>> sizes;  // of the kind's symbols, in terms of the
                                                      // plan's
};
struct HorizontalProgram {
  std::shared_ptr<ExprTable> exprs;  // of the kinds
  std::vector<HorizontalKind> kinds;
  std::vector<HorizontalPart> parts;

  ir::Dim flops() const;
};

/// Everything about a program except the plan's buffers.
std::string print_horizontal(const HorizontalProgram& program);

/// `body`: independent fused regions of families "pointwise" and "reduction", reshapes of their
/// results, and concatenations of results along an outermost axis, done by the regions' stores.
/// Sizes may be symbolic. `inputs` and `outputs` are the plan's buffers. Throws Error(kUnsupported)
/// for other bodies.
HorizontalProgram lower_horizontal(const ir::Graph& body, std::span<const std::uint32_t> inputs,
                                   std::span<const std::uint32_t> outputs);

}  // namespace sinter::codegen
