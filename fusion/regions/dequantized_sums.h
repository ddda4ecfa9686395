// What floats of 16 bits are made of the sums of a product of 8 bits, element by element.
#pragma once

#include <functional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// The pointwise nodes from `reader`, which reads `sums`, to the first one that yields 16-bit
/// floats, each the only reader of the one in front. Their other operands are constants or each
/// row's own (last dimension 1). None if they do not end so, or if `is_stored` says of a value in
/// between that something else needs it in memory.
std::vector<NodeId> dequantization(const Graph& graph, ValueId sums, const Node& reader,
                                   const std::function<bool(ValueId)>& is_stored);

}  // namespace sinter::fusion
