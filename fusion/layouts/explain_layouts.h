// SPDX-License-Identifier: Apache-2.0
// Explains the layouts of values.
#pragma once

#include <vector>

#include "fusion/layouts/candidates.h"
#include "fusion/layouts/problem.h"

namespace sinter::fusion {

/// For each node that computes something and whose result could have several layouts, or has
/// another one than in the model: the choice in `labels`, the cost of the next best with all else
/// unchanged, and the neighbours that cause it.
std::vector<LayoutChoice> explain_layouts(const Graph& graph, const Candidates& candidates,
                                          const LayoutProblem& problem,
                                          const std::vector<int>& labels);

}  // namespace sinter::fusion
