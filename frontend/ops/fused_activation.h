// SPDX-License-Identifier: Apache-2.0
// Activations at the end of fused com.microsoft operators.
#pragma once

#include <string>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Applies the activation `name` with its parameters to `x`: LeakyRelu, Elu, Celu and
/// ThresholdedRelu need alpha, HardSigmoid and Selu two numbers, Clip a minimum and a maximum.
/// Relu, Tanh, Sigmoid, HardSwish, Softplus and Softsign need none. An empty name returns `x`.
/// Throws Error(kInvalidModel) for missing parameters, kUnsupported for other names.
ValueId fused_activation(NodeContext& node, ValueId x, const std::string& name,
                         const std::vector<double>& numbers);

}  // namespace sinter::frontend
