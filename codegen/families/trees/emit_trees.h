// SPDX-License-Identifier: Apache-2.0
// Regions of kind "trees": their buffers, and the kernel.
#pragma once

#include <cstdint>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Rows and the tables of ir's TreeEnsemble, in buffers of the plan.
struct TreeProblem {
  std::uint32_t x = 0, nodes = 0, thresholds = 0, trees = 0, weights = 0, result = 0;
  DType dtype = DType::kFloat32;
  Dim rows;
  std::int64_t columns = 0, node_count = 0, tree_count = 0, width = 1, targets = 1;
  Combine combine = Combine::kSum;
};

/// Uses the request's name, origins and device.
EmittedKernel emit_trees(const TreeProblem& problem, const KernelRequest& request,
                         ExprTable& exprs);

}  // namespace sinter::codegen
