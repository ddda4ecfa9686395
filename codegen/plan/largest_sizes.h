// SPDX-License-Identifier: Apache-2.0
// Replaces sizes that only the device knows by their upper bounds, for the host.
#pragma once

#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Replaces sizes that only the run knows by upper bounds where the host needs them: grids, bytes
/// to copy and dimensions of library calls, which then compute extra rows. Drops variants that ask
/// whether such a size is divisible. Throws Error(kUnsupported) if a library's stride or reduction
/// depends on one, as the result would be wrong.
void ask_for_the_largest(StepT& step, ExprTable& exprs);

}  // namespace sinter::codegen
