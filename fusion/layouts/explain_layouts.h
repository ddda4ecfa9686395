// Why values lie as they lie.
#pragma once

#include <vector>

#include "fusion/layouts/candidates.h"
#include "fusion/layouts/problem.h"

namespace sinter::fusion {

/// Of each node that computes something and whose result could lie in more than one way, or lies
/// otherwise than the model has it: what `labels` made of it, what the next best would cost with
/// everything around it as it is, and for which neighbours.
std::vector<LayoutChoice> explain_layouts(const Graph& graph, const Candidates& candidates,
                                          const LayoutProblem& problem,
                                          const std::vector<int>& labels);

}  // namespace sinter::fusion
