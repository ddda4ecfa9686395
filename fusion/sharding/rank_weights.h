// SPDX-License-Identifier: Apache-2.0
// The constants of ranks. A graph of ranks has whole constants and slices them by the rank's
// number; kernels want constants.
#pragma once

#include <memory>

#include "fusion/context.h"
#include "ir/constants/recipe.h"

namespace sinter::fusion {

/// `graph` with each slice of a constant by the rank's number replaced by that part for rank 0,
/// which ir::for_rank makes for the others: one list of steps serves all ranks, and each part of a
/// weight is stored once. `log` records what is decided by rank 0's parts.
Graph with_weights_of_ranks(const Graph& graph, const std::shared_ptr<ir::ReadLog>& log);

}  // namespace sinter::fusion
