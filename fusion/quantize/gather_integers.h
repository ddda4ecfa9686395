// Tables of embeddings that a model keeps in few bits.
#pragma once

#include <optional>
#include <vector>

#include "fusion/regions/constant_values.h"
#include "fusion/regions/rebuild.h"
#include "ir/graph.h"

namespace sinter::fusion {

/// Rows of a dequantized table, if `node` gathers such: the integers of these rows, dequantized.
/// Nothing where that cannot be told apart row by row.
std::optional<Piece> gather_integers(const ir::Graph& graph, ConstantValues& values,
                                     const ir::Node& node);

}  // namespace sinter::fusion
