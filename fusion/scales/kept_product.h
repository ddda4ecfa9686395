// SPDX-License-Identifier: Apache-2.0
// Matmuls of an activation and constant float weights that no option quantizes: the report lists
// each with the reason.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/constant_values.h"

namespace sinter::fusion {

/// The report of `node`, if it is such a matmul (or a float64 convolution): all except those with
/// one matrix as right operand. Nothing for weights that the model stores as integers.
std::optional<QuantizedLayer> kept_product(const Graph& graph, const ConstantValues& values,
                                           const Node& node);

/// The reports of all matmuls of an activation and constant float weights in the bodies of `node`.
std::vector<QuantizedLayer> products_of_bodies(const ConstantValues& values, const Node& node);

}  // namespace sinter::fusion
