// Family "horizontal": many small regions, one kernel over a table of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/lowering/expr_table.h"
#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Regions that differ in their sizes and buffers alone have one program, over symbols for sizes.
struct HorizontalKind {
  plan::fb::LoopProgramT program;  // its buffers are numbered from 0
  std::vector<DType> types;        // of its buffers
};
struct HorizontalPart {
  std::size_t kind = 0;
  std::vector<std::uint32_t> buffers;  // the plan's, for each of the kind's
  ir::Bindings sizes;                  // of the kind's symbols
};
struct HorizontalProgram {
  std::shared_ptr<ExprTable> exprs;  // of the kinds
  std::vector<HorizontalKind> kinds;
  std::vector<HorizontalPart> parts;

  std::int64_t flops() const;
};

/// `body`: fused regions that do not depend on each other, reshapes of their results, and
/// concatenations of them along an outermost axis, which are made by the regions' own stores.
/// `inputs`, `outputs`: the plan's buffers. Throws Error(kUnsupported) for anything else.
HorizontalProgram lower_horizontal(const ir::Graph& body, std::span<const std::uint32_t> inputs,
                                   std::span<const std::uint32_t> outputs);

}  // namespace sinter::codegen
