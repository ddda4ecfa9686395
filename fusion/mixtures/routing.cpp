// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/routing.h"

#include <algorithm>
#include <set>

#include "fusion/mixtures/choices.h"
#include "fusion/mixtures/nodes.h"
#include "fusion/patterns/producer.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

/// The other operand, if one is a number.
std::optional<std::pair<ValueId, double>> with_number(const Graph& graph, const Node& node) {
  for (const std::size_t i : {0, 1})
    if (graph.is_constant(node.inputs[i]) &&
        graph.type(node.inputs[1 - i]) == graph.type(node.outputs[0]))
      if (const auto number = splat_value(graph, node.inputs[i]))
        return std::pair(node.inputs[1 - i], *number);
  return std::nullopt;
}

/// Floats that a Route computes with as float32.
bool is_routed_float(DType type) { return is_arithmetic_float(type) && type != DType::kFloat64; }

/// Scores [tokens, experts] in front of a softmax over experts, or of a sigmoid.
struct Scores {
  ValueId logits;
  const char* name;
};
Scores scores_of(const Graph& graph, ValueId scores) {
  if (const Node* node = producer_of(graph, scores, "Softmax");
      node != nullptr && node->attrs.get_int("axis") == 1)
    return {node->inputs[0], "softmax"};
  if (const Node* node = producer_of(graph, scores, "Sigmoid")) return {node->inputs[0], "sigmoid"};
  return {scores, "none"};
}

/// In front of a cast that keeps all values.
ValueId before_widening(const Graph& graph, ValueId value) {
  const Node* cast = producer_of(graph, value, "Cast");
  const bool widens = cast != nullptr && graph.type(value).dtype == DType::kFloat32 &&
                      is_routed_float(graph.type(cast->inputs[0]).dtype);
  return widens ? cast->inputs[0] : value;
}

bool is_column_sum(const Graph& graph, const Node* node, ValueId of) {
  return node != nullptr && node->op->name == "ReduceSum" && node->inputs[0] == of &&
         node->attrs.get_ints("axes") == Ints{1} && graph.type(node->outputs[0]).shape.size() == 2;
}

/// The scores whose greatest of each token are the choices; invalid if they are none.
ValueId ranked_by(const Graph& graph, ValueId choices) {
  const auto greatest = find_greatest(graph, choices);
  if (!greatest || greatest->count < 1) return {};
  const TensorType& all = graph.type(greatest->scores);
  const bool fits =
      all.shape.size() == 2 && all.shape[1].is_constant() && is_routed_float(all.dtype);
  return fits ? greatest->scores : ValueId();
}

}  // namespace

std::vector<ValueId> add_route(GraphBuilder& b, const Routing& routing, ValueId logits,
                               ValueId bias) {
  std::vector<ValueId> inputs{logits};
  if (routing.bias.valid()) inputs.push_back(mixtures::reshape(b, bias, {b.type(logits).shape[1]}));
  return b.add_multi("Route", std::move(inputs), routing.attrs);
}

std::optional<Routing> find_routing(const Graph& graph, ValueId choices, ValueId shares) {
  const ValueId sorted = ranked_by(graph, choices);
  if (!sorted.valid() || !is_routed_float(graph.type(shares).dtype)) return std::nullopt;
  const Shape& all = graph.type(sorted).shape;
  const Shape& chosen = graph.type(choices).shape;
  if (graph.type(shares).shape != chosen) return std::nullopt;
  Routing result;
  result.shares = shares;
  double scale = 1, epsilon = 0;
  bool normalises = false;
  ValueId value = shares;
  if (const Node* node = producer_of(graph, value, "Mul"))
    if (const auto scaled = with_number(graph, *node)) {
      value = scaled->first;
      scale = scaled->second;
    }
  std::string name;
  if (const Node* node = producer_of(graph, value, "Div")) {
    const Node* sum = graph.producer(node->inputs[1]);
    if (sum != nullptr && sum->op->name == "Add") {
      const auto added = with_number(graph, *sum);
      if (!added || added->second < 0) return std::nullopt;
      epsilon = added->second;
      sum = graph.producer(added->first);
    }
    if (!is_column_sum(graph, sum, node->inputs[0])) return std::nullopt;
    normalises = true;
    value = node->inputs[0];
  }
  // Scores of the chosen logits alone: a softmax over them is that over all, normalised.
  if (const Scores own = scores_of(graph, value); !normalises && own.logits != value) {
    name = own.name;
    normalises = name == "softmax";
    value = own.logits;
  }
  const Node* take = graph.producer(before_widening(graph, value));
  if (take == nullptr || !takes_at(graph, *take, choices)) return std::nullopt;
  ValueId ranked = sorted;
  const ValueId scores = take->inputs[0];
  const auto groups = ranked != scores ? find_expert_groups(graph, ranked) : std::nullopt;
  if (groups) ranked = groups->scores;
  if (const Node* sum = producer_of(graph, ranked, "Add"); sum != nullptr && ranked != scores) {
    const std::size_t other = sum->inputs[0] == scores ? 1 : 0;
    const TensorType& bias = graph.type(sum->inputs[other]);
    const bool is_bias = (bias.shape == Shape{all[1]} || bias.shape == Shape{Dim(1), all[1]}) &&
                         is_routed_float(bias.dtype);
    if (sum->inputs[1 - other] != scores || !is_bias) return std::nullopt;
    result.bias = sum->inputs[other];
    ranked = scores;
  }
  // Softmax and sigmoid keep the order of logits.
  const bool ranks_logits =
      name.empty() && !groups && !result.bias.valid() && scores_of(graph, scores).logits == ranked;
  if (ranked != scores && !ranks_logits) return std::nullopt;
  if (name.empty()) {
    const Scores own = scores_of(graph, scores);
    name = own.name;
    result.logits = own.logits;
  } else {
    // Of logits, where Route adds scores.
    if (result.bias.valid() || groups) return std::nullopt;
    result.logits = scores;
  }
  result.logits = before_widening(graph, result.logits);
  if (graph.type(result.logits).shape != all) return std::nullopt;
  result.attrs = {{"k", chosen[1].value()},
                  {"scores", name},
                  {"normalise", std::int64_t{normalises}},
                  {"epsilon", epsilon},
                  {"scale", scale}};
  if (groups) {
    result.attrs.set("groups", groups->groups);
    result.attrs.set("kept_groups", groups->kept);
    result.attrs.set("group_scores", groups->best);
    result.attrs.set("zero_outside", std::int64_t{groups->zero_outside});
  }
  return result;
}

std::optional<Routing> find_routing(const Graph& graph, ValueId choices) {
  const ValueId ranked = ranked_by(graph, choices);
  if (!ranked.valid()) return std::nullopt;
  const Shape& chosen = graph.type(choices).shape;
  // What is computed from scores at the choices, in order.
  std::optional<Routing> result;
  std::set<ValueId> own{choices};
  for (const Node& node : graph.nodes()) {
    const bool is_own =
        node.outputs.size() == 1 &&
        std::ranges::any_of(node.inputs, [&](ValueId v) { return own.contains(v); });
    if (!is_own) continue;
    const TensorType& type = graph.type(node.outputs[0]);
    if (type.shape.size() != 2 || type.shape[0] != chosen[0] || !is_routed_float(type.dtype))
      continue;
    own.insert(node.outputs[0]);
    if (auto found = find_routing(graph, choices, node.outputs[0])) result = std::move(found);
  }
  if (!result)
    result = Routing{.logits = before_widening(graph, scores_of(graph, ranked).logits),
                     .attrs = {{"k", chosen[1].value()}, {"scores", std::string("none")}}};
  return result;
}

}  // namespace sinter::fusion
