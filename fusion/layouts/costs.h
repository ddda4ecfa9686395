// What it costs that a value lies otherwise than a node reads it.
#pragma once

#include <vector>

#include "fusion/layouts/candidates.h"
#include "fusion/layouts/problem.h"

namespace sinter::fusion {

/// Weights are integers of this part of a byte, so that a difference which moves nothing weighs
/// less than any that does.
constexpr double kWeightOfByte = 64;

/// The choice of a form for each node as a problem: variables are the nodes. Weights are bytes of
/// traffic, a launch being TargetTraits::launch_bytes.
///
/// - What a library stores, and an input of the model, is stored anew where a library or an output
///   of the model wants another order: written, read, and a launch.
/// - A loop (pointwise, reduction, gather) reads and writes any order. It costs a share of the
///   bytes where neighbours in memory are no longer neighbours in the loop. What others read in its
///   order too is written twice.
/// - Element by element behind a library is part of it in its order, and a kernel in another.
/// - Products read and write matrices by rows or by columns, in batches of any order; attention by
///   rows. Views are what reads or makes the value behind them.
LayoutProblem layout_problem(const Graph& graph, const TargetTraits& target,
                             const Candidates& candidates, const std::vector<bool>& is_static);

}  // namespace sinter::fusion
