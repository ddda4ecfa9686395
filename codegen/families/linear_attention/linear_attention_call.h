// SPDX-License-Identifier: Apache-2.0
// LinearAttention on the CPU: a call of runtime/operators/linear_attention.
#pragma once

#include "codegen/families/operator_family.h"

namespace sinter::codegen {

/// Bytes of operands and states, and the operations of the recurrence.
StepCost linear_attention_cost(const OperatorRegion& region);
plan::fb::OperatorStepT linear_attention_call(const OperatorRegion& region, ExprTable& exprs);

}  // namespace sinter::codegen
