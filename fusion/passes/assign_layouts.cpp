// The memory order of every value, as one decision over the graph.
//
// layouts/candidates finds the forms in which each node might be done, layouts/costs says what it
// costs that a value lies otherwise than a node reads it, and layouts/problem chooses. Then the
// graph is built anew in the forms that are chosen, with Transposes where they disagree.
#include <algorithm>

#include "fusion/layouts/candidates.h"
#include "fusion/layouts/costs.h"
#include "fusion/layouts/twins.h"
#include "fusion/passes/passes.h"

namespace sinter::fusion {
namespace {

/// `graph` with each node in its form.
Graph build(const Graph& graph, const TargetTraits& target, const std::vector<Form>& forms) {
  GraphBuilder builder(graph.name());
  Twins twins(graph, builder);
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  for (const ValueId input : graph.inputs()) {
    const Value& info = graph.value(input);
    twins.set(input, builder.input(info.name, info.type), identity_perm(info.type.shape.size()));
  }
  for (std::size_t n = 0; n < forms.size(); ++n) {
    const Node& node = graph.nodes()[n];
    GraphBuilder::OriginScope scope(builder, node.origins);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(twins.in(node.inputs[i], forms[n].operands[i]));
    const auto results = build_form(builder, graph, node, forms[n], inputs, target);
    for (std::size_t i = 0; i < results.size(); ++i)
      twins.set(node.outputs[i], results[i], forms[n].results[i]);
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    builder.output(graph.output_names()[i], twins.plain(graph.outputs()[i]));
  for (const ir::State& state : graph.states()) builder.state(state);
  return builder.finish();
}

/// What is a Conv with channels last alone, or a Transpose: layouts begin there.
bool has_layout(const Node& node) {
  return node.op->name == "Conv" || node.op->name == "Transpose";
}

}  // namespace

Graph assign_layouts(const Graph& graph, Context& context) {
  if (std::ranges::none_of(graph.nodes(), has_layout)) return graph;
  const std::vector<bool> is_static = static_values(graph);
  const Candidates candidates = find_candidates(graph, context.target, is_static);
  const LayoutProblem problem = layout_problem(graph, context.target, candidates, is_static);
  const std::vector<int> first(graph.nodes().size(), 0);
  const std::vector<int> labels = solve(problem, first);
  const auto is_conv = [](const Node& node) { return node.op->name == "Conv"; };
  if (labels == first && std::ranges::none_of(graph.nodes(), is_conv)) return graph;
  std::vector<Form> forms;
  for (std::size_t n = 0; n < labels.size(); ++n)
    forms.push_back(candidates.forms[n][static_cast<std::size_t>(labels[n])]);
  return simplify(build(graph, context.target, forms), context);
}

}  // namespace sinter::fusion
