// SPDX-License-Identifier: Apache-2.0
// Activations that operators of com.microsoft end with.
#pragma once

#include <string>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// `name` of `x`, with the numbers that it takes: LeakyRelu, Elu, Celu and ThresholdedRelu alpha,
/// HardSigmoid and Selu two, Clip least and most. Throws Error(kInvalidModel) if there are fewer,
/// kUnsupported for others than these, Relu, Tanh, Sigmoid, HardSwish, Softplus and Softsign. Of an
/// empty name `x` itself.
ValueId fused_activation(NodeContext& node, ValueId x, const std::string& name,
                         const std::vector<double>& numbers);

}  // namespace sinter::frontend
