// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/gate.h"

#include <map>
#include <set>

namespace sinter::fusion {
namespace {

/// The half of the last dimension that `node`, a view of a value of type `from`, takes: 1, 2, or 0.
int half_taken(const Node& node, const TensorType& from, const TensorType& to) {
  if (node.op->name != "Slice" || from.shape.size() != to.shape.size()) return 0;
  const std::int64_t half = from.shape.back().value() / 2;
  for (const std::int64_t step : node.attrs.get_ints("steps"))
    if (step != 1) return 0;
  for (std::size_t d = 0; d + 1 < from.shape.size(); ++d)
    if (to.shape[d] != from.shape[d]) return 0;
  if (to.shape.back() != ir::Dim(half)) return 0;
  const std::vector<ir::Dim>& starts = node.attrs.get_dims("starts");
  for (std::size_t d = 0; d + 1 < starts.size(); ++d)
    if (starts[d] != ir::Dim(0)) return 0;
  return starts.back() == ir::Dim(0) ? 1 : starts.back() == ir::Dim(half) ? 2 : 0;
}

/// The Cast to a narrower type that is the only reader of `node`'s result; otherwise `node`.
NodeId narrowed(const Graph& graph, NodeId node) {
  const ValueId value = graph.node(node).outputs[0];
  if (graph.users(value).size() != 1 || graph.is_output(value)) return node;
  const NodeId user = graph.users(value)[0];
  const Node& cast = graph.node(user);
  return cast.op->name == "Cast" &&
                 size_of(graph.type(cast.outputs[0]).dtype) < size_of(graph.type(value).dtype)
             ? user
             : node;
}

}  // namespace

std::optional<NodeId> gate_of(const Graph& graph, ValueId result) {
  while (graph.users(result).size() == 1 && !graph.is_output(result)) {
    const Node& user = graph.node(graph.users(result)[0]);
    if (user.op->name != "Reshape") break;
    result = user.outputs[0];
  }
  const TensorType& type = graph.type(result);
  if (graph.is_output(result) || type.shape.empty() || !type.shape.back().is_constant() ||
      type.shape.back().value() % 2 != 0)
    return std::nullopt;
  std::map<ValueId, int> halves;  // half that values depend on: 1 or 2
  std::set<NodeId> open;          // in topological order
  const auto add = [&](ValueId value, int half) {
    halves[value] = half;
    open.insert(graph.users(value).begin(), graph.users(value).end());
    return graph.users(value).size() == 1 && !graph.is_output(value);
  };
  int taken = 0;
  for (const NodeId user : graph.users(result)) {
    const Node& node = graph.node(user);
    const int half = half_taken(node, type, graph.type(node.outputs[0]));
    if (half == 0 || (taken & half) != 0 || !add(node.outputs[0], half)) return std::nullopt;
    taken |= half;
  }
  if (taken != 3) return std::nullopt;
  const Shape shape = graph.type(halves.begin()->first).shape;
  while (!open.empty()) {
    const NodeId id = *open.begin();
    open.erase(open.begin());
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::kPointwise || node.outputs.size() != 1 ||
        graph.type(node.outputs[0]).shape != shape)
      return std::nullopt;
    int half = 0;
    for (const ValueId input : node.inputs)
      if (const auto known = halves.find(input); known != halves.end()) half |= known->second;
    if (half == 3) return narrowed(graph, id);
    if (!add(node.outputs[0], half)) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace sinter::fusion
