// Which layers make a model's results without another one behind them.
#pragma once

#include <set>

#include "ir/graph.h"

namespace sinter::fusion {

/// Of `layers`, places of nodes in `graph`, those that no other of them reads from and that read
/// from another themselves: a language model's logits, a classifier's classes. A layer that stands
/// alone is not one.
std::set<std::size_t> last_layers(const ir::Graph& graph, const std::set<std::size_t>& layers);

}  // namespace sinter::fusion
