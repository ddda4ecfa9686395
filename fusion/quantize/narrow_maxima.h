// Maxima and repeated quantization of values that stand for integers of 8 bits.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// Maxima and minima of such values, in windows as elsewhere, are those of the integers: what they
/// stand for only grows with them. What padded them with the infinity that loses pads with the
/// integer that does.
Graph narrow_maxima(const Graph& graph, Context& context);

/// What is quantized again just as it was is the integers that it was made of.
Graph drop_requantization(const Graph& graph);

}  // namespace sinter::fusion
