// Scales of products and convolutions that get operands of 8 bits, and which of them keep their own
// because errors would be too large.
#pragma once

#include "fusion/eight_bit/eight_bit_layer.h"

namespace sinter::fusion {

/// The layers to be rounded, with their scales and weights; `context` gets the report of all.
/// Throws Error(kUsage) where static scales are asked for without samples.
EightBitProducts choose_products(const Graph& graph, Context& context);

}  // namespace sinter::fusion
