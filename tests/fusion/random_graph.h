// SPDX-License-Identifier: Apache-2.0
// Random graphs over the operators that fusion rearranges.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace sinter::fusion::test {

/// A valid graph of about `nodes` nodes over float64 values (so that results may be compared
/// closely) with a symbolic first dimension: pointwise operators, reductions, views, products,
/// gathers and composites, values read once, several times or not at all. The same seed gives the
/// same graph.
ir::Graph random_graph(std::uint64_t seed, int nodes);

}  // namespace sinter::fusion::test
