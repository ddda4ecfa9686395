// SPDX-License-Identifier: Apache-2.0
#include "fusion/patterns/top_choices.h"

#include <algorithm>

namespace sinter::fusion {
namespace {

/// Of an axis of [tokens, n].
bool is_last(std::int64_t axis) { return axis == 1 || axis == -1; }

/// Take(scores, 0 .. tokens - 1, indices).
bool takes_at(const Graph& graph, const Node& node, ValueId scores, ValueId indices) {
  if (node.op->name != "Take" || node.inputs.size() != 3 || node.inputs[0] != scores ||
      node.inputs[2] != indices)
    return false;
  const Node* rows = graph.producer(node.inputs[1]);
  return rows != nullptr && rows->op->name == "Iota" && rows->attrs.get_int("axis") == 0;
}

const Node* only_user(const Graph& graph, ValueId value) {
  const auto& users = graph.users(value);
  return users.size() == 1 && !graph.is_output(value) ? &graph.node(users[0]) : nullptr;
}

/// The quotient of `shares` and their sum, if nothing else reads them.
const Node* normalised(const Graph& graph, ValueId shares) {
  if (graph.users(shares).size() != 2 || graph.is_output(shares)) return nullptr;
  const Node *sum = nullptr, *quotient = nullptr;
  for (const NodeId user : graph.users(shares)) {
    const Node& node = graph.node(user);
    if (node.op->name == "ReduceSum" && node.attrs.get_ints("axes") == Ints{1} &&
        node.attrs.get_int("keepdims") == 1)
      sum = &node;
    if (node.op->name == "Div" && node.inputs[0] == shares) quotient = &node;
  }
  const bool fits = sum != nullptr && quotient != nullptr &&
                    quotient->inputs[1] == sum->outputs[0] &&
                    only_user(graph, sum->outputs[0]) == quotient;
  return fits ? quotient : nullptr;
}

}  // namespace

std::optional<TopChoices> find_top_choices(const Graph& graph, const Node& node) {
  if (node.op->name != "ArgSort" || node.attrs.get_int("descending") != 1) return std::nullopt;
  const ValueId scores = node.inputs[0], indices = node.outputs[0];
  const Shape &from = graph.type(scores).shape, &shape = graph.type(indices).shape;
  if (from.size() != 2 || !is_last(node.attrs.get_int("axis")) || !from[1].is_constant() ||
      !shape[1].is_constant() || shape[1].value() < 1)
    return std::nullopt;
  TopChoices found{shape[1].value(), "none"};
  for (const NodeId user : graph.users(indices)) {
    const Node& take = graph.node(user);
    if (!takes_at(graph, take, scores, indices)) continue;
    found.shares = take.outputs[0];
    const Node* after = only_user(graph, found.shares);
    if (after != nullptr && after->op->name == "Softmax" && is_last(after->attrs.get_int("axis"))) {
      found.shares = after->outputs[0];
      found.scores = "softmax";
      found.normalises = true;
      return found;
    }
    if (const Node* quotient = normalised(graph, found.shares)) {
      found.shares = quotient->outputs[0];
      found.normalises = true;
    }
    break;
  }
  // Rounded scores may be equal where logits are not.
  const Node* softmax = graph.producer(scores);
  if (softmax != nullptr && softmax->op->name == "Softmax" &&
      is_last(softmax->attrs.get_int("axis")) && graph.type(scores).dtype == DType::kFloat32) {
    found.before_softmax = true;
    found.scores = "softmax";
  }
  return found;
}

}  // namespace sinter::fusion
