// SPDX-License-Identifier: Apache-2.0
// LinearAttention of ir/ops/recurrent/linear_attention.cpp. "rule" is 0 (linear), 1 (delta) or 2
// (general_delta); "decay" 0 (none), 1 (by head) or 2 (by channel); "state" says whether there is
// one. Operands that these leave out have no elements.
#pragma once

#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

/// Of a batch of sequences of one length, or of a ragged one.
OperatorDef linear_attention_def(bool is_ragged);

}  // namespace sinter::plan
