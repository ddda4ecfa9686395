// SPDX-License-Identifier: Apache-2.0
// Lowers fused regions of kinds "matmul" and "conv" to library steps. Lowers convolutions of every
// type, grouping and rank to loop programs.
#pragma once

#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Lowers a body of kind "matmul": views of operands, MatMul (scaled weights, their scales and zero
/// points are region inputs). Then any of: a scalar factor, a bias along n, a residual, an
/// activation, output views. Merges batch dimensions that both sides stride alike, and merges batch
/// into rows if the right side has none.
plan::fb::MatmulStepT lower_matmul(const Graph& body, Buffers inputs, Buffers outputs,
                                   ExprTable& exprs, bool tf32);
/// Lowers a body of kind "conv": Conv, then any of: a residual of its shape, an activation with
/// constant scalar parameters. Throws Error(kUnsupported) for other bodies.
plan::fb::ConvStepT lower_conv(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                               bool tf32);

/// Lowers a region of kind "gemm" to loops: each element of the result is a sum over k, or over
/// window and channels. Then follows the rest of `body` (`with_epilogue`), or only of the GEMM's
/// own region. Throws Error(kUnsupported) if the epilogue needs a separate kernel.
LoopProgramT lower_product_loops(const Graph& body, bool with_epilogue, Buffers inputs,
                                 Buffers outputs, ExprTable& exprs);

}  // namespace sinter::codegen
