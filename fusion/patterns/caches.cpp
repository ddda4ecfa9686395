#include "fusion/patterns/caches.h"

#include <algorithm>

#include "ir/affine.h"

namespace sinter::fusion {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

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

bool keeps_places(const Graph& graph, const CacheHistory& history, const ir::TensorType& type) {
  ir::GraphBuilder builder("views");
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  ValueId value = builder.input("x", type);
  for (auto id = history.nodes.rbegin(); id != history.nodes.rend(); ++id)
    if (const Node& node = graph.node(*id); moves_all(node))
      value = builder.add(node.op->name, {value}, node.attrs);
  builder.output("y", value);
  const Graph views = builder.finish();
  ir::Ranges ranges = views.ranges();
  const auto index = ir::index_symbols(type.shape, ranges);
  const ir::TracedView traced = ir::trace_view(views, views.outputs()[0], index, ranges);
  if (traced.sources.size() != 1 || !traced.sources[0].guards.empty()) return false;
  // Where a dimension has one element its index says nothing.
  for (std::size_t d = 0; d < index.size(); ++d)
    if (type.shape[d] != ir::Dim(1) && traced.sources[0].index[d] != index[d]) return false;
  return true;
}

bool is_cache(const Graph& graph, const CacheHistory& history) {
  const auto on_the_way = [&](NodeId id) {
    return std::find(history.nodes.begin(), history.nodes.end(), id) != history.nodes.end();
  };
  bool is_new = false, is_used = false;
  ValueId value = history.input;
  for (auto id = history.nodes.rbegin(); id != history.nodes.rend(); ++id) {
    if (!is_new && (graph.users(value).size() != 1 || graph.is_output(value))) return false;
    const Node& node = graph.node(*id);
    if (node.op->scatter() != nullptr) {
      is_new = true;
      if (std::count(node.inputs.begin(), node.inputs.end(), value) != 1) return false;
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
