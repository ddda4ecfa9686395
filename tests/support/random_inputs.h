// SPDX-License-Identifier: Apache-2.0
// Random inputs for a graph.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/dim/dim.h"
#include "ir/tensor.h"

namespace sinter::ir {
class Graph;
}

namespace sinter::test {

/// Inputs of `graph` for these sizes: floats uniform in [-largest, largest), integers in [-3, 3),
/// booleans. The same for one seed.
std::vector<ir::Tensor> random_inputs(const ir::Graph& graph, const ir::Bindings& sizes,
                                      std::uint64_t seed, double largest = 2);

}  // namespace sinter::test
