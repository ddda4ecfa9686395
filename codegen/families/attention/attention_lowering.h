// SPDX-License-Identifier: Apache-2.0
// Lowers a fused region of kind "attention" to a strided problem.
#pragma once

#include "codegen/families/attention/attention_program.h"

namespace sinter::codegen {

/// Lowers a body of kind "attention": views of operands, Attention, Transposes and Reshapes of its
/// result, and rounding to 8 bits. Throws Error(kUnsupported) that names the operand without
/// strided access and contiguous columns.
AttentionProgram lower_attention(const Graph& body, Buffers inputs, Buffers outputs,
                                 ExprTable& exprs);

}  // namespace sinter::codegen
