// How much a step reads, writes and computes: figures for profiles, exact for dense steps.
#pragma once

#include <functional>

#include <sinter/dtype.h>

#include "codegen/plan/expr_table.h"
#include "ir/dim/dim.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Compulsory traffic in bytes (each element of each buffer once) and floating-point operations.
struct StepCost {
  Dim bytes_read, bytes_written, flops;
  plan::fb::Arithmetic arithmetic = plan::fb::Arithmetic::Scalar;  // what most of flops are

  /// Adds traffic and operations; `arithmetic` stays.
  StepCost& operator+=(const StepCost& other);
};

/// What the accounting asks about a plan buffer.
struct BufferSize {
  Dim bytes;
  std::size_t element_size = 1;
};
using SizeOf = std::function<BufferSize(std::uint32_t buffer)>;

/// The arithmetic of products with operands of type `operands`.
plan::fb::Arithmetic gemm_arithmetic(DType operands, plan::fb::MathMode math);

StepCost cost_of(const LoopProgramT& program, const ExprTable& exprs, const SizeOf& size);
StepCost cost_of(const plan::fb::MatmulStepT& step, const ExprTable& exprs, const SizeOf& size);
StepCost cost_of(const plan::fb::ConvStepT& step, const ExprTable& exprs, const SizeOf& size);

}  // namespace sinter::codegen
