// SPDX-License-Identifier: Apache-2.0
// LinearAttention between values of 16 bits that its model widens for it, as PyTorch's code does.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// Rounds queries, keys and values of layers of float32 to the 16-bit type of which one of them is
/// a widened value: the model's own rounding is of that size, and chunks on tensor cores take no
/// other type. Gates, sums and states stay as they are. Notes each decision.
Graph narrow_recurrences(const Graph& graph, Context& context);

}  // namespace sinter::fusion
