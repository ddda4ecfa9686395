// Undoes fusion where a fused kernel cannot be had.
#pragma once

#include <optional>
#include <span>

#include "ir/graph.h"

namespace sinter::fusion {

/// `graph`, which the passes have finished with, where each of `nodes` (indices of fused nodes) is
/// the nodes of its body instead, every operator its own kernel. Nothing if none of them holds more
/// than one operator.
std::optional<ir::Graph> separate(const ir::Graph& graph, std::span<const std::size_t> nodes);

}  // namespace sinter::fusion
