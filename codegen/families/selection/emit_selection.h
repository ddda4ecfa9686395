// SPDX-License-Identifier: Apache-2.0
// Regions of kind "selection": their buffers and the kernel.
#pragma once

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// See SelectIndices in ir/ops.
struct SelectionProblem {
  std::uint32_t flags = 0, before = 0, indices = 0;  // plan buffers
  Dim tiles, count;
  std::int64_t tile = 0;
};

EmittedKernel emit_selection(const SelectionProblem& problem, const KernelRequest& request,
                             ExprTable& exprs);

}  // namespace sinter::codegen
