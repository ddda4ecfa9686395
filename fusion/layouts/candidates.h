// The forms in which each node of a graph might be done.
#pragma once

#include <vector>

#include "fusion/layouts/forms.h"
#include "fusion/layouts/problem.h"

namespace sinter::fusion {

struct Candidates {
  std::vector<std::vector<Form>> forms;  // of each node; the first is first_form
  /// Forms that agree, by node: what one convolution or Transpose would like around it.
  std::vector<std::vector<LayoutProblem::Choice>> moves;
};

/// Of each value: true if it depends on no input of the graph.
std::vector<bool> static_values(const Graph& graph);

/// Layouts spread from where they begin, both ways, to whatever can be done in them: from
/// convolutions, from the operands of Transposes as they lie, and from what would make the results
/// of Transposes lie as the model has them. `is_static`: static_values of the graph.
Candidates find_candidates(const Graph& graph, const TargetTraits& target,
                           const std::vector<bool>& is_static);

}  // namespace sinter::fusion
