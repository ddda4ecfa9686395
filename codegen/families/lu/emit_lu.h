// SPDX-License-Identifier: Apache-2.0
// Regions of kind "determinant" and "inverse": their buffers, and the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Square matrices in buffers of the plan.
struct LuProblem {
  std::uint32_t x = 0, y = 0;
  DType type = DType::kFloat32;
  Dim count = 1, n;
  bool is_inverse = false;

  /// float64 if the elements are, else float32.
  DType compute_type() const;
  /// Rows up to which a matrix lies in shared memory, on every device.
  std::int64_t most_in_shared() const;
  bool may_be_small(const ExprTable& exprs) const;
  bool may_be_large(const ExprTable& exprs) const;
  /// Of large matrices: their factors, swapped rows, records and products of panels; panels
  /// themselves, if some device's shared memory may not hold them.
  std::vector<Dim> scratch_bytes(const ExprTable& exprs) const;
  /// Kernels behind the first.
  std::size_t kernels_behind(const ExprTable& exprs) const;
};

/// `scratch`: of the sizes that scratch_bytes() gives. Uses the request's name, origins and device.
EmittedKernel emit_lu(const LuProblem& problem, const std::vector<std::uint32_t>& scratch,
                      const KernelRequest& request, ExprTable& exprs);

}  // namespace sinter::codegen
