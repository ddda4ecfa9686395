// SPDX-License-Identifier: Apache-2.0
// Bytes that a step reads and writes and its operations, for profiles; exact for dense steps.
#pragma once

#include <functional>

#include <sinter/dtype.h>

#include "codegen/plan/expr_table.h"
#include "ir/dim/dim.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Compulsory traffic in bytes (each element of each buffer once) and operations.
struct StepCost {
  Dim bytes_read, bytes_written, flops;
  plan::fb::Arithmetic arithmetic = plan::fb::Arithmetic::Scalar;  // kind of most operations

  /// Adds traffic and operations; keeps `arithmetic`.
  StepCost& operator+=(const StepCost& other);
};

/// Size of a plan buffer, for the accounting.
struct BufferSize {
  Dim bytes;
  std::size_t element_size = 1;
};
using SizeOf = std::function<BufferSize(std::uint32_t buffer)>;

/// The arithmetic of a matmul whose operands have type `operands`.
plan::fb::Arithmetic gemm_arithmetic(DType operands, plan::fb::MathMode math);

StepCost cost_of(const LoopProgramT& program, const ExprTable& exprs, const SizeOf& size);
StepCost cost_of(const plan::fb::MatmulStepT& step, const ExprTable& exprs, const SizeOf& size);
StepCost cost_of(const plan::fb::ConvStepT& step, const ExprTable& exprs, const SizeOf& size);

}  // namespace sinter::codegen
