// SPDX-License-Identifier: Apache-2.0
#include "fusion/patterns/caches.h"

#include <algorithm>

#include "fusion/regions/operand.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

bool moves_all(const Node& node) {
  return node.op->name == "Transpose" || node.op->name == "Reshape";
}

}  // namespace

std::optional<CacheHistory> cache_history(const Graph& graph, ValueId output) {
  CacheHistory result{output, {}};
  bool changed = false;
  while (const Node* node = graph.producer(result.input)) {
    const bool scatters = node->op->scatter() != nullptr;
    if (!scatters && !moves_all(*node)) return std::nullopt;
    if (scatters && node->attrs.get_string("combine") != "none") return std::nullopt;
    changed = changed || scatters;
    result.nodes.push_back(graph.value(result.input).producer);
    result.input = node->inputs[0];
  }
  if (!changed || graph.is_constant(result.input)) return std::nullopt;
  return result;
}

bool keeps_places(const Graph& graph, const CacheHistory& history, const TensorType& type) {
  const std::vector<NodeId> nodes(history.nodes.rbegin(), history.nodes.rend());
  const Graph views = views_only(graph, type, nodes);
  Ranges ranges = views.ranges();
  const auto index = ir::index_symbols(type.shape, ranges);
  const auto traced = ir::trace_to_source(views, views.outputs()[0], index, ranges);
  if (!traced) return false;
  // The index of a dimension of size 1 is irrelevant.
  for (std::size_t d = 0; d < index.size(); ++d)
    if (type.shape[d] != ir::Dim(1) && traced->index[d] != index[d]) return false;
  return true;
}

bool is_cache(const Graph& graph, const CacheHistory& history) {
  const auto on_the_way = [&](NodeId id) {
    return std::ranges::find(history.nodes, id) != history.nodes.end();
  };
  bool is_new = false, is_used = false;
  ValueId value = history.input;
  for (auto id = history.nodes.rbegin(); id != history.nodes.rend(); ++id) {
    if (!is_new && (graph.users(value).size() != 1 || graph.is_output(value))) return false;
    const Node& node = graph.node(*id);
    if (node.op->scatter() != nullptr) {
      is_new = true;
      if (std::ranges::count(node.inputs, value) != 1) return false;
    }
    value = node.outputs[0];
    if (is_new)
      for (const NodeId user : graph.users(value)) is_used = is_used || !on_the_way(user);
  }
  return is_used;
}

std::optional<ValueId> windowed_cache(const Graph& graph, ValueId output) {
  const Node* take = graph.producer(output);
  if (take == nullptr || take->op->name != "Take") return std::nullopt;
  const ValueId rows = take->inputs[0];
  const Node* both = graph.producer(rows);
  if (both == nullptr || both->op->name != "Concat" || graph.users(rows).size() < 2)
    return std::nullopt;
  const ValueId input = both->inputs[0];
  if (graph.producer(input) != nullptr || graph.is_constant(input) || graph.is_output(input) ||
      graph.users(input).size() != 1 || !(graph.type(input) == graph.type(output)))
    return std::nullopt;
  return input;
}

}  // namespace sinter::fusion
