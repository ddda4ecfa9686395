// SPDX-License-Identifier: Apache-2.0
// Candidate forms for each node of a graph.
#pragma once

#include <vector>

#include "fusion/layouts/forms.h"
#include "fusion/layouts/problem.h"

namespace sinter::fusion {

struct Candidates {
  std::vector<std::vector<Form>> forms;  // by node; the first is first_form
  /// Sets of forms that agree, by node: the preferences around one convolution or Transpose.
  std::vector<std::vector<LayoutProblem::Choice>> moves;
};

/// For each value: true if it depends on no input of the graph.
std::vector<bool> static_values(const Graph& graph);

/// Layouts spread in both directions to every node that supports them. They start at convolutions,
/// at the operands of Transposes, and at what would give the results of Transposes the model's
/// layout. `is_static`: static_values() of the graph.
Candidates find_candidates(const Graph& graph, const TargetTraits& target,
                           const std::vector<bool>& is_static);

}  // namespace sinter::fusion
