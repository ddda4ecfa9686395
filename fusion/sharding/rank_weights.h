// SPDX-License-Identifier: Apache-2.0
// The constants of one rank. A graph of ranks has whole constants and slices them by the rank's
// number; kernels want constants.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// `graph` with each slice of a constant by the rank's number replaced by that part for `rank`: a
/// derived constant (derivation "part"), whose recipe says which bytes of which tensor it has. The
/// graphs of all ranks differ in these constants alone, so that one list of steps serves all, and
/// each part of a weight is stored once.
Graph with_weights_of(const Graph& graph, std::int64_t rank);

}  // namespace sinter::fusion
