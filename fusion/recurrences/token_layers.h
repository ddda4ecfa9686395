// SPDX-License-Identifier: Apache-2.0
// Layers with states that are spelled token by token: one step, as models with caches have for one
// token, or a chain of them, as exporters unroll loops over tokens.
#pragma once

#include <vector>

#include "fusion/recurrences/sequences.h"

namespace sinter::fusion {

struct FoundChain {
  const Node* node;  // the last step
  FoundRecurrence found;
};
/// All chains of steps, each as long as it can be.
std::vector<FoundChain> token_layers(const Graph& graph);

}  // namespace sinter::fusion
