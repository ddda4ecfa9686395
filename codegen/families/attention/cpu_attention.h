// Attention as a step of the CPU's runtime.
#pragma once

#include "codegen/families/attention/attention_lowering.h"
#include "plan_generated.h"

namespace sinter::codegen {

/// The step that computes `program`.
plan::fb::AttentionStepT cpu_attention_step(const AttentionProgram& program, ExprTable& exprs);

}  // namespace sinter::codegen
