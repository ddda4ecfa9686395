// SPDX-License-Identifier: Apache-2.0
// Rewrites a graph so that matmuls and convolutions have 8-bit operands.
#pragma once

#include <functional>
#include <span>

#include "fusion/scales/choice/eight_bit_layer.h"

namespace sinter::fusion {

/// The rounded layer; `add_weights(type)` adds its weights as floats of a type, those of a grouped
/// matmul as [groups, n, k]. `smooths`: see add_rounded().
ValueId add_eight_bit_layer(GraphBuilder& builder, const EightBitLayer& layer,
                            const ActivationScale& scale, const Node& node,
                            std::span<const ValueId> inputs, bool smooths,
                            const std::function<ValueId(DType)>& add_weights);

/// `graph` with `products.layers` rounded. Activations are divided by their smoothing where they
/// are computed, if only these layers would see it.
Graph rewrite_products(const Graph& graph, const EightBitProducts& products);

}  // namespace sinter::fusion
