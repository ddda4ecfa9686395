// SPDX-License-Identifier: Apache-2.0
// Weights that a model stores as floats of 16 bits, for targets that widen them as they read.
#pragma once

#include <optional>

#include "fusion/context.h"
#include "fusion/regions/constant_values.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

/// The constant right operand, [k, n], of the matmul `node` as codes of its stored type with scales
/// of one: f16 or bf16, behind views and exact casts. Nothing if it is stored otherwise, or if the
/// target does not multiply x by it.
std::optional<ir::ScaledTensor> half_weights(const Graph& graph, const Context& context,
                                             const Node& node);

}  // namespace sinter::fusion
