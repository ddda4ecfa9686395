// SPDX-License-Identifier: Apache-2.0
// Chooses scales of matmuls and convolutions with 8-bit operands, and the layers that stay exact
// because errors would be too large.
#pragma once

#include "fusion/scales/choice/eight_bit_layer.h"

namespace sinter::fusion {

/// The layers to round, with scales and weights; reports all layers to `context`. Throws
/// Error(kUsage) if static scales are requested without samples.
EightBitProducts choose_products(const Graph& graph, Context& context);

}  // namespace sinter::fusion
