// Sizes that kernels find on the device, as the host sees them: the largest that they may be.
#pragma once

#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Puts the largest values in place of sizes that only the run knows, where a step asks the host:
/// grids, bytes to copy, and the dimensions of library calls, which then compute more rows than
/// there are. What asks whether such a size is divisible goes. Throws Error(kUnsupported) for a
/// stride or a sum of the library's that depends on one: it would take the wrong elements.
void ask_for_the_largest(StepT& step, ExprTable& exprs);

}  // namespace sinter::codegen
