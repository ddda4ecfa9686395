// SPDX-License-Identifier: Apache-2.0
// Regions of kind "suppression": their buffers, and the kernel.
#pragma once

#include <cstdint>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Rows of boxes in buffers of the plan.
struct SuppressionProblem {
  std::uint32_t boxes = 0, valid = 0, kept = 0;
  Dim rows = 1, length;
  double iou = 0;
  std::int64_t most = 0;  // kept of each row; 0: all
};

/// Uses the request's name, origins and device.
EmittedKernel emit_suppression(const SuppressionProblem& problem, const KernelRequest& request,
                               ExprTable& exprs);

}  // namespace sinter::codegen
