// SPDX-License-Identifier: Apache-2.0
// The kernel of LinearAttention, of whole batches and of ragged ones.
#pragma once

#include <memory>

#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {

std::unique_ptr<PreparedOperator> prepare_linear_attention(const OperatorCall& call);

}  // namespace sinter::runtime::cpu
