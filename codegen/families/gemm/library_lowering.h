// Fused regions of families "matmul" and "conv" as library steps.
#pragma once

#include <cstdint>
#include <span>

#include "codegen/plan/expr_table.h"
#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Lowers a body of kind "matmul": operand views, MatMul or QuantMatMul (whose weights, scales
/// and zero points are inputs of the region), then any of: a scalar factor, a bias along n, a
/// residual, an activation, output views. Batch dimensions that both sides walk alike are merged,
/// and rows with batch where the right side has none.
plan::fb::MatmulStepT lower_matmul(const ir::Graph& body, std::span<const std::uint32_t> inputs,
                                   std::span<const std::uint32_t> outputs, ExprTable& exprs,
                                   bool tf32);
/// Lowers a body of kind "conv": Conv, then any of: a residual of its shape, an activation whose
/// parameters are constants of one element. Throws Error(kUnsupported) for anything else.
plan::fb::ConvStepT lower_conv(const ir::Graph& body, std::span<const std::uint32_t> inputs,
                               std::span<const std::uint32_t> outputs, ExprTable& exprs, bool tf32);

}  // namespace sinter::codegen
