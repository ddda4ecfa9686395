// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include <algorithm>
#include <deque>

namespace sinter::ir {

void sort_unique(std::vector<std::string>& names) {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
}
namespace {

/// A one-to-one correspondence between the values of two graphs that grows as they are compared.
class Correspondence {
 public:
  Correspondence(const Graph& a, const Graph& b)
      : a_(a), b_(b), to_b_(a.values().size()), to_a_(b.values().size()) {}

  /// False if this contradicts an earlier pairing.
  bool pair(ValueId x, ValueId y) {
    ValueId& forward = to_b_[x.position()];
    ValueId& backward = to_a_[y.position()];
    if (forward.valid() || backward.valid()) return forward == y && backward == x;
    forward = y;
    backward = x;
    pending_.emplace_back(x, y);
    return true;
  }

  /// Compares the producers of the paired values, back to the inputs.
  bool complete() {
    while (!pending_.empty()) {
      const auto [x, y] = pending_.front();
      pending_.pop_front();
      if (!same_origin(a_.value(x), b_.value(y))) return false;
    }
    return true;
  }

 private:
  bool same_origin(const Value& x, const Value& y) {
    if (!(x.type == y.type) || x.producer.valid() != y.producer.valid() ||
        x.output_index != y.output_index || (x.constant == nullptr) != (y.constant == nullptr))
      return false;
    if (x.constant) return x.constant == y.constant || *x.constant == *y.constant;
    // Inputs are paired by position; reaching one with another partner is a mismatch.
    if (!x.producer.valid()) return true;
    return same_node(a_.node(x.producer), b_.node(y.producer));
  }

  bool same_node(const Node& x, const Node& y) {
    if (x.op != y.op || x.inputs.size() != y.inputs.size() ||
        x.outputs.size() != y.outputs.size() || !(x.attrs == y.attrs) ||
        (x.body == nullptr) != (y.body == nullptr))
      return false;
    if (x.body && x.body != y.body && !structurally_equal(*x.body, *y.body)) return false;
    for (std::size_t i = 0; i < x.inputs.size(); ++i)
      if (!pair(x.inputs[i], y.inputs[i])) return false;
    for (std::size_t i = 0; i < x.outputs.size(); ++i)
      if (!pair(x.outputs[i], y.outputs[i])) return false;
    return true;
  }

  const Graph& a_;
  const Graph& b_;
  std::vector<ValueId> to_b_, to_a_;
  std::deque<std::pair<ValueId, ValueId>> pending_;
};

}  // namespace

const Node* Graph::producer(ValueId id) const {
  const NodeId node_id = value(id).producer;
  return node_id.valid() ? &node(node_id) : nullptr;
}

std::vector<TensorType> Graph::types(std::span<const ValueId> ids) const {
  std::vector<TensorType> result;
  for (const ValueId id : ids) result.push_back(type(id));
  return result;
}

std::optional<std::size_t> Graph::input_number(ValueId id) const {
  const auto at = std::ranges::find(inputs(), id);
  if (at == inputs().end()) return std::nullopt;
  return static_cast<std::size_t>(at - inputs().begin());
}

Graph::Graph() {
  static const auto empty = std::make_shared<const Parts>();
  parts_ = empty;
}

bool structurally_equal(const Graph& a, const Graph& b) {
  if (a.is_same(b)) return true;
  if (a.inputs().size() != b.inputs().size() || a.outputs().size() != b.outputs().size() ||
      a.nodes().size() != b.nodes().size() || a.ranges() != b.ranges() || a.states() != b.states())
    return false;
  Correspondence correspondence(a, b);
  for (std::size_t i = 0; i < a.inputs().size(); ++i)
    if (!correspondence.pair(a.inputs()[i], b.inputs()[i])) return false;
  for (std::size_t i = 0; i < a.outputs().size(); ++i)
    if (!correspondence.pair(a.outputs()[i], b.outputs()[i])) return false;
  return correspondence.complete();
}

}  // namespace sinter::ir
