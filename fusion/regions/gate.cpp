// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/gate.h"

#include <map>
#include <set>

namespace sinter::fusion {
namespace {

/// The half of a row that `node`, a view of a value of type `from`, takes: 1, 2, or 0. Halves lie
/// side by side in the last dimension, or are a dimension of two in front of it.
int half_taken(const Node& node, const TensorType& from, const TensorType& to) {
  const std::size_t rank = from.shape.size();
  if (node.op->name != "Slice" || rank != to.shape.size()) return 0;
  const bool is_split =
      rank > 1 && from.shape[rank - 2] == ir::Dim(2) && to.shape.back() == from.shape.back();
  const std::size_t cut = rank - (is_split ? 2 : 1);
  const ir::Dim half = is_split ? 1 : from.shape.back().value() / 2;
  for (const std::int64_t step : node.attrs.get_ints("steps"))
    if (step != 1) return 0;
  const std::vector<ir::Dim>& starts = node.attrs.get_dims("starts");
  for (std::size_t d = 0; d < rank; ++d)
    if (d != cut && (to.shape[d] != from.shape[d] || starts[d] != ir::Dim(0))) return 0;
  if (to.shape[cut] != half) return 0;
  return starts[cut] == ir::Dim(0) ? 1 : starts[cut] == half ? 2 : 0;
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
  // Reshapes, and what is the same for both halves, as the scales of an 8-bit product.
  while (graph.users(result).size() == 1 && !graph.is_output(result)) {
    const Node& user = graph.node(graph.users(result)[0]);
    const bool is_elementwise = user.op->kind == OpKind::kPointwise && user.outputs.size() == 1 &&
                                graph.type(user.outputs[0]).shape == graph.type(result).shape;
    if (user.op->name != "Reshape" && !is_elementwise) break;
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
  const Shape& shape = graph.type(halves.begin()->first).shape;
  const ir::Dim count = ir::element_count(shape), columns = shape.back();
  while (!open.empty()) {
    const NodeId id = *open.begin();
    open.erase(open.begin());
    const Node& node = graph.node(id);
    if ((node.op->kind != OpKind::kPointwise && node.op->name != "Reshape") ||
        node.outputs.size() != 1)
      return std::nullopt;
    const Shape& own = graph.type(node.outputs[0]).shape;
    if (own.empty() || own.back() != columns || ir::element_count(own) != count)
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
