// Products of an activation and constant float weights whose weights stay floats, whatever is asked
// for: the report has a row of each that says why.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/constant_values.h"

namespace sinter::fusion {

/// The row of `node` if it is such a product (or convolution of float64): all but those by one
/// matrix on the right. Nothing for products by weights that the model has as integers.
std::optional<QuantizedLayer> kept_product(const Graph& graph, const ConstantValues& values,
                                           const Node& node);

/// The rows of all products of an activation and constant float weights in the bodies of `node`.
std::vector<QuantizedLayer> products_of_bodies(const ConstantValues& values, const Node& node);

}  // namespace sinter::fusion
