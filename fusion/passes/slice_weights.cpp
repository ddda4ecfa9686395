// SPDX-License-Identifier: Apache-2.0
// Makes the ranks' slices of constants constants of each rank, which kernels want.
#include "fusion/passes/passes.h"
#include "fusion/sharding/rank_weights.h"

namespace sinter::fusion {

Graph slice_weights(const Graph& graph, Context& context) {
  if (context.sharding.ranks <= 1) return graph;
  context.sharded.reads = std::make_shared<ir::ReadLog>();
  return with_weights_of_ranks(graph, context.sharded.reads);
}

}  // namespace sinter::fusion
