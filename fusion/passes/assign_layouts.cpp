// SPDX-License-Identifier: Apache-2.0
// Assigns the memory layout of every value, as one optimization over the graph.
//
// layouts/candidates finds the possible forms of each node, layouts/costs computes the cost of
// layout differences, and layouts/problem chooses. Then the graph is rebuilt in the chosen forms,
// with Transposes where they differ.
#include <algorithm>

#include "fusion/layouts/build_layouts.h"
#include "fusion/layouts/candidates.h"
#include "fusion/layouts/costs.h"
#include "fusion/layouts/explain_layouts.h"
#include "fusion/passes/passes.h"

namespace sinter::fusion {
namespace {

/// True for a Conv that needs channels last, and for a Transpose: layouts start there.
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
