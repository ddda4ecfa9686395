// SPDX-License-Identifier: Apache-2.0
// The choice of splits over a graph.
#pragma once

#include "fusion/sharding/costs.h"

namespace sinter::fusion {

struct ShardingChoice {
  std::vector<Strategy> ways;       // by node
  std::vector<Split> state_splits;  // by state of the graph
};

/// Chooses by dynamic programming over the nodes in order. A partial choice is what is known of
/// the values that later nodes read: how they are split, and in which other ways they are at hand.
/// Of partial choices that know the same the least costly stays, and of the others the best few.
/// Deterministic. Outputs are whole; a state is split alike before and after the run.
ShardingChoice choose_splits(const Graph& graph, Ranks ranks, const ShardingCosts& costs);

}  // namespace sinter::fusion
