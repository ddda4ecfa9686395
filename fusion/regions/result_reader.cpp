// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/result_reader.h"

#include <algorithm>
#include <set>

#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

/// True if step `step` needs only its own element of a result, or the corresponding elements in
/// both halves of its `2 * half` columns, or two adjacent ones of them.
bool are_own(const std::vector<Index>& needed, const Index& step, const std::optional<Dim>& half) {
  if (!half) return needed.size() == 1 && needed[0] == step;
  const auto are = [&](const Dim& a, const Dim& b) {
    Index first = step, second = step;
    first.back() = a;
    second.back() = b;
    return needed.size() == 2 && ((needed[0] == first && needed[1] == second) ||
                                  (needed[1] == first && needed[0] == second));
  };
  const Dim &own = step.back(), even = Dim(2) * own;
  return are(own, own + *half) || are(even, even + Dim(1));
}

void add_readers(const Graph& graph, ValueId value, const std::vector<NodeId>& reshapes,
                 std::vector<ResultReader>& readers) {
  for (const NodeId user : graph.users(value)) {
    const Node& node = graph.node(user);
    if (node.op->name == "Reshape") {
      std::vector<NodeId> longer = reshapes;
      longer.push_back(user);
      add_readers(graph, node.outputs[0], longer, readers);
    } else if (is_kind(node, "pointwise") || is_kind(node, "reduction")) {
      readers.push_back({user, reshapes, value});
    }
  }
}

bool is_read_by(const Graph& graph, ValueId value, NodeId reader) {
  const auto& users = graph.users(value);
  return std::ranges::find(users, reader) != users.end();
}

/// True if the reader also depends on another node that depends on the maker. Nodes are in
/// topological order: later nodes are not on a path to the reader.
bool has_detour(const Graph& graph, const Node& maker, const ResultReader& reader) {
  std::set<NodeId> seen;
  std::vector<NodeId> open;
  const auto reads = [&](ValueId value) { return is_read_by(graph, value, reader.node); };
  const auto push_users = [&](ValueId value) {
    for (const NodeId user : graph.users(value))
      if (user < reader.node) open.push_back(user);
  };
  for (const ValueId output : maker.outputs) push_users(output);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    const bool on_the_way = std::ranges::find(reader.reshapes, id) != reader.reshapes.end();
    for (const ValueId out : graph.node(id).outputs) {
      if (!on_the_way && reads(out)) return true;
      push_users(out);
    }
  }
  return false;
}

}  // namespace

std::vector<ResultReader> result_readers(const Graph& graph, ValueId result) {
  std::vector<ResultReader> readers;
  add_readers(graph, result, {}, readers);
  return readers;
}

Verdict is_next(const Graph& graph, const Node& maker, ValueId result, const ResultReader& reader) {
  const Node& node = graph.node(reader.node);
  std::size_t uses = 0;
  for (const ResultReader& other : result_readers(graph, result))
    uses += other.node == reader.node ? 1 : 0;
  if (std::ranges::count(node.inputs, reader.read) != 1 || uses != 1)
    return {false, "'" + describe(node) + "' reads the result in two ways"};
  for (const ValueId output : maker.outputs)
    if (output != result && is_read_by(graph, output, reader.node))
      return {false, "'" + describe(node) + "' reads another of its outputs, too"};
  if (has_detour(graph, maker, reader))
    return {false, "a kernel between the two would have to run in the middle"};
  return {true, ""};
}

Verdict follows(const Graph& body, ValueId result, const Shape& space, const Ints& axes,
                const std::optional<Dim>& half) {
  const std::vector<bool> stored(body.values().size(), false);
  Region region(body, space, axes, stored);
  for (ValueId output : body.outputs()) {
    const Node* node = body.producer(output);
    // Later nodes through which the result is stored.
    while (node && (node->op->name == "Transpose" || node->op->name == "Reshape")) {
      output = node->inputs[0];
      node = body.producer(output);
    }
    if (!node) return {false, "it stores what it reads"};
    if (Verdict v = region.add_result(body.value(output).producer); !v.ok) return v;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (ValueId leaf : region.leaves()) {
      const NodeId producer = body.value(leaf).producer;
      if (!producer.valid() || region.demands().find(leaf)->whole) continue;
      if (Verdict v = region.add_producer(producer, false); !v.ok) return v;
      changed = true;
      break;
    }
  }
  const Region::Demand* demand = region.demands().find(result);
  const auto step = region.step_index(space);
  if (demand == nullptr || !step) return {false, "it does not read the result"};
  if (demand->whole || demand->guarded || !are_own(demand->indices, *step, half))
    return {false, "it reads other elements of the result than the one at hand"};
  return {true, ""};
}

bool is_read_beside(const Graph& graph, ValueId value, const ResultReader& reader) {
  if (graph.is_output(value)) return true;
  return std::ranges::any_of(graph.users(value), [&](NodeId user) {
    if (user == reader.node) return false;
    const auto& reshapes = reader.reshapes;
    if (std::ranges::find(reshapes, user) == reshapes.end()) return true;
    return is_read_beside(graph, graph.node(user).outputs[0], reader);
  });
}

}  // namespace sinter::fusion
