// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"
#include "ir/constants/fourier.h"

namespace sinter::codegen {

/// A Dft, by the buffers of its operands; see ir/ops/transform.cpp.
struct TransformProblem {
  ir::Dft transform;
  std::uint32_t x = 0, roots = 0, y = 0;
  std::optional<std::uint32_t> window;
  DType type = DType::kFloat32;
  ir::Dim rows = 1;    // of the result, frames included
  ir::Dim pitch = 1;   // numbers of an input row
  ir::Dim frames = 1;  // of each of them

  std::string text() const;
};

EmittedKernel emit_transform(const TransformProblem& problem, const KernelRequest& request,
                             ExprTable& exprs);

}  // namespace sinter::codegen
