// Fused regions of kinds "matmul" and "conv" as library steps; convolutions as loop programs, for
// every type, grouping and rank.
#pragma once

#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Lowers a body of kind "matmul": operand views, MatMul or QuantMatMul (whose weights, scales
/// and zero points are inputs of the region), then any of: a scalar factor, a bias along n, a
/// residual, an activation, output views. Batch dimensions that both sides walk alike are merged,
/// and rows with batch where the right side has none.
plan::fb::MatmulStepT lower_matmul(const Graph& body, Buffers inputs, Buffers outputs,
                                   ExprTable& exprs, bool tf32);
/// Lowers a body of kind "conv": Conv, then any of: a residual of its shape, an activation whose
/// parameters are constants of one element. Throws Error(kUnsupported) for anything else.
plan::fb::ConvStepT lower_conv(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                               bool tf32);

/// Lowers a region of kind "gemm": for each element of the result the sum over k, or over window
/// and channels of a convolution, then what follows it in `body` (`with_epilogue`), or in the
/// product's own region alone. Throws Error(kUnsupported) if what follows needs a kernel of its
/// own.
LoopProgramT lower_product_loops(const Graph& body, bool with_epilogue, Buffers inputs,
                                 Buffers outputs, ExprTable& exprs);

}  // namespace sinter::codegen
