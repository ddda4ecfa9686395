// SPDX-License-Identifier: Apache-2.0
// Maxima and repeated quantization of dequantized 8-bit integers.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// Computes maxima and minima of such values, in windows and elsewhere, on the integers:
/// dequantization is monotonic. Padding with infinity becomes padding with the extreme
/// integer.
Graph narrow_maxima(const Graph& graph, Context& context);

/// Replaces requantization with the same parameters by the original integers.
Graph drop_requantization(const Graph& graph);

}  // namespace sinter::fusion
