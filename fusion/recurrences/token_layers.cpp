// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/token_layers.h"

#include <algorithm>
#include <map>

#include "fusion/recurrences/step_emission.h"
#include "fusion/recurrences/unit_lower.h"

namespace sinter::fusion {
namespace {

/// A value with the results of all steps along a dimension, and that dimension.
struct Collected {
  ValueId value;
  std::size_t axis;
};
/// Behind the first step's result: a Concat, or the last of the Scatters that store one each.
std::optional<Collected> collected(const Graph& graph, Terms& terms,
                                   const std::vector<TokenStep>& steps) {
  const auto count = static_cast<std::int64_t>(steps.size());
  std::vector<ValueId> open{steps[0].out.value};
  for (std::size_t i = 0; i < open.size() && i < 16 + steps.size(); ++i)
    for (const NodeId user : graph.users(open[i])) {
      const Node& node = graph.node(user);
      const std::string_view op = node.op->name;
      if (node.outputs.size() != 1) continue;
      if (op == "Scatter" || op == "Cast" || node.op->kind == OpKind::kView)
        open.push_back(node.outputs[0]);
      if (op != "Scatter" && op != "Concat") continue;
      const ElementAt any = terms.any_of(node.outputs[0]);
      const Shape& shape = graph.type(node.outputs[0]).shape;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (shape[axis] != Dim(count)) continue;
        ElementAt all = any;
        bool fits = true;
        for (std::int64_t t = count - 1; t >= 0 && fits; --t) {
          const TokenStep& step = steps[static_cast<std::size_t>(t)];
          all.index[axis] = Dim(t);
          ElementAt stored = all;
          if (op == "Scatter") {
            const auto slice = written_slice(terms, all, axis, Dim(t));
            fits = slice.has_value();
            if (!fits) break;
            stored = slice->first;
            all = slice->second;
          }
          // The element of the step's result at the collected one's dimensions, in order.
          while (stored.value != step.out.value) {
            auto next = terms.behind(stored);
            if (!next) break;
            stored = std::move(*next);
          }
          std::vector<Dim> expected, found;
          for (std::size_t d = 0; d < any.index.size(); ++d)
            if (d != axis && !any.index[d].is_constant()) expected.push_back(any.index[d]);
          for (const Dim& dim : stored.index)
            if (!dim.is_constant()) found.push_back(dim);
          fits = stored.value == step.out.value && found == expected;
        }
        if (fits) return Collected{node.outputs[0], axis};
      }
    }
  return std::nullopt;
}

FoundRecurrence recurrence_of(const Graph& graph, Terms& terms, StepChain chain) {
  const auto all = chain.steps.size() > 1 ? collected(graph, terms, chain.steps) : std::nullopt;
  Piece piece;
  if (all)
    piece.writes.push_back(all->value);
  else
    for (const TokenStep& step : chain.steps) piece.writes.push_back(step.out.value);
  piece.writes.push_back(chain.steps.back().after);
  const auto reads = [&](const std::optional<StepOperand>& operand) {
    if (!operand) return;
    for (const ElementAt& factor : operand->factors)
      if (std::ranges::find(piece.reads, factor.value) == piece.reads.end())
        piece.reads.push_back(factor.value);
  };
  for (const TokenStep& step : chain.steps) {
    for (const auto* const operand : {&step.decay, &step.beta, &step.erase_a, &step.erase_b})
      reads(*operand);
    for (const auto* const operand : {&step.key, &step.value, &step.out.query}) reads(*operand);
  }
  const TokenStep& first = chain.steps[0];
  if (first.before) piece.reads.push_back(*first.before);
  const Dim keys = chain.keys;
  const std::string_view rule = first.rule;
  const DType type = graph.type(first.out.value).dtype;
  std::vector<std::string> origins;
  for (const TokenStep& step : chain.steps)
    origins.insert(origins.end(), step.node->origins.begin(), step.node->origins.end());
  piece.emit = [&graph, chain = std::move(chain), all, type, origins, old = piece.reads,
                writes = piece.writes](GraphBuilder& b, std::span<const ValueId> given) {
    const GraphBuilder::OriginScope scope(b, origins);
    const auto read = [&](ValueId value) {
      return given[static_cast<std::size_t>(std::ranges::find(old, value) - old.begin())];
    };
    const StepEmission emission(graph, chain, b, TokenSource{read});
    const std::optional<ValueId> before = chain.steps[0].before;
    const auto results = emission.run(type, before ? std::optional(read(*before)) : std::nullopt);
    std::vector<ValueId> written;
    for (std::size_t i = 0; i + 1 < writes.size(); ++i)
      written.push_back(
          all ? emission.results(results[0], all->axis, graph.type(writes[i]))
              : emission.result(results[0], static_cast<std::int64_t>(i), graph.type(writes[i])));
    written.push_back(emission.state_out(results[1], graph.type(writes.back())));
    return written;
  };
  return {std::move(piece), rule, keys, type};
}

}  // namespace

std::vector<FoundChain> token_layers(const Graph& graph) {
  TokenSteps steps(graph);
  std::vector<std::vector<TokenStep>> chains;
  std::map<ValueId, std::size_t> chain_of;  // by its last state
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "Add") continue;
    auto step = steps.match(node);
    if (!step) continue;
    const auto before = step->before ? chain_of.find(*step->before) : chain_of.end();
    std::size_t chain = chains.size();
    if (before == chain_of.end()) {
      chains.emplace_back();
    } else {
      chain = before->second;
      chain_of.erase(before);
    }
    chain_of[step->after] = chain;
    chains[chain].push_back(std::move(*step));
  }
  std::vector<FoundChain> result;
  for (auto& chain : chains) {
    if (!std::ranges::all_of(chain, [&](TokenStep& step) { return steps.complete(step); }))
      continue;
    const Node* const node = chain.back().node;
    auto sized = with_sizes(graph, std::move(chain));
    if (sized) result.push_back({node, recurrence_of(graph, steps.terms(), std::move(*sized))});
  }
  return result;
}

}  // namespace sinter::fusion
