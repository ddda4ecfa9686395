// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/nodes.h"

#include "fusion/transforms.h"

namespace sinter::fusion::mixtures {

ValueId stacked(GraphBuilder& b, const Graph& graph, const std::vector<ValueId>& values,
                const Ints& matrix) {
  const Ints shape = matrix.empty() ? graph.value(values[0]).constant->shape() : matrix;
  std::vector<Tensor> parts;
  parts.reserve(values.size());
  for (const ValueId value : values) parts.push_back(graph.value(value).constant->reshaped(shape));
  const Tensor all = ir::derive(
      kJoinedRows, {{"present", Ints(parts.size(), 1)}, {"rows", Ints(parts.size(), shape[0])}},
      parts);
  return b.constant(all.reshaped({std::ssize(parts), shape[0], shape[1]}));
}

}  // namespace sinter::fusion::mixtures
