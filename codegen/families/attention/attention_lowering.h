// Fused region of kind "attention" as a strided problem.
#pragma once

#include "codegen/families/attention/attention_program.h"

namespace sinter::codegen {

/// Lowers a body of kind "attention": operand views, Attention, Transposes and Reshapes of its
/// result, and what rounds it to 8 bits. Throws Error(kUnsupported) saying which operand is no
/// strided access with contiguous columns.
AttentionProgram lower_attention(const Graph& body, Buffers inputs, Buffers outputs,
                                 ExprTable& exprs);

}  // namespace sinter::codegen
