// SPDX-License-Identifier: Apache-2.0
// Layers with states that are spelled as loops over tokens (Loop, Scan): the body is one step.
#pragma once

#include <vector>

#include "fusion/recurrences/token_layers.h"

namespace sinter::fusion {

/// Loops that are a LinearAttention, with what else their bodies compute for all tokens at once.
std::vector<FoundChain> loop_layers(const Graph& graph);

}  // namespace sinter::fusion
