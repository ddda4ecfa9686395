// The memory order of every value, as one decision over the graph.
//
// layouts/candidates finds the forms in which each node might be done, layouts/costs says what it
// costs that a value lies otherwise than a node reads it, and layouts/problem chooses. Then the
// graph is built anew in the forms that are chosen, with Transposes where they disagree.
#include <algorithm>

#include "fusion/layouts/build_layouts.h"
#include "fusion/layouts/candidates.h"
#include "fusion/layouts/costs.h"
#include "fusion/layouts/explain_layouts.h"
#include "fusion/passes/passes.h"

namespace sinter::fusion {
namespace {

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
  const auto choices = explain_layouts(graph, candidates, problem, labels);
  context.layouts.insert(context.layouts.end(), choices.begin(), choices.end());
  const auto is_conv = [](const Node& node) { return node.op->name == "Conv"; };
  if (labels == first && std::ranges::none_of(graph.nodes(), is_conv)) return graph;
  std::vector<Form> forms;
  for (std::size_t n = 0; n < labels.size(); ++n)
    forms.push_back(candidates.forms[n][static_cast<std::size_t>(labels[n])]);
  return simplify(build_layouts(graph, forms, context.target), context);
}

}  // namespace sinter::fusion
