// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/dequantized_sums.h"

#include <algorithm>

namespace sinter::fusion {

std::vector<NodeId> dequantization(const Graph& graph, ValueId sums, const Node& reader,
                                   const std::function<bool(ValueId)>& is_stored) {
  constexpr std::size_t kMost = 8;
  std::vector<NodeId> nodes;
  ValueId current = sums;
  for (const Node* node = &reader; nodes.size() < kMost;) {
    const TensorType& type = graph.type(node->outputs[0]);
    if (node->op->kind != OpKind::kPointwise || type.shape != graph.type(current).shape) break;
    const bool is_simple = std::ranges::all_of(node->inputs, [&](ValueId input) {
      const Shape& shape = graph.type(input).shape;
      return input == current || graph.is_constant(input) || shape.empty() ||
             shape.back() == Dim(1);
    });
    if (!is_simple) break;
    current = node->outputs[0];
    nodes.push_back(graph.value(current).producer);
    if (type.dtype == DType::kFloat16 || type.dtype == DType::kBFloat16) return nodes;
    const auto& users = graph.users(current);
    if (users.size() != 1 || graph.is_output(current) || is_stored(current)) break;
    node = &graph.node(users[0]);
  }
  return {};
}

}  // namespace sinter::fusion
