// Products with one-hot matrices: look-ups in disguise.
#pragma once

#include <optional>

#include "fusion/regions/rebuild.h"
#include "ir/graph.h"

namespace sinter::fusion {

/// If `node` is MatMul(Cast(Equal(ids, 0 1 2 ..)), table), the look-up that computes the same: row
/// ids of the table, zeros where ids is none of its rows. The comparison with every row, and the
/// matrix that holds it, are never made.
std::optional<Piece> one_hot_product(const ir::Graph& graph, const ir::Node& node);

}  // namespace sinter::fusion
