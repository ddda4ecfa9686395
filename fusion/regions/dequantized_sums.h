// SPDX-License-Identifier: Apache-2.0
// Conversion of an 8-bit matmul's sums to 16-bit floats, elementwise.
#pragma once

#include <functional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// The chain of pointwise nodes from `reader`, which reads `sums`, to the first with a 16-bit float
/// result, each the only reader of the previous one. Other operands are constants or vary by row
/// only (last dimension 1). Empty if the chain does not end so, or if `is_stored` is true for an
/// intermediate value that must be in memory.
std::vector<NodeId> dequantization(const Graph& graph, ValueId sums, const Node& reader,
                                   const std::function<bool(ValueId)>& is_stored);

}  // namespace sinter::fusion
