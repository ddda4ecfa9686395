// SPDX-License-Identifier: Apache-2.0
// Kernels of loop programs.
#pragma once

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Chooses schedules and writes the kernel. Deterministic. Throws Error(kUnsupported), which names
/// the request, if no schedule accepts it.
EmittedKernel emit_loops(const KernelRequest& request, ExprTable& exprs);

}  // namespace sinter::codegen
