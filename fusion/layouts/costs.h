// SPDX-License-Identifier: Apache-2.0
// The cost of values whose layout differs from what their readers want.
#pragma once

#include <vector>

#include "fusion/layouts/candidates.h"
#include "fusion/layouts/problem.h"

namespace sinter::fusion {

/// Weights are integers in this part of a byte, so that a difference without traffic weighs less
/// than any traffic.
constexpr double kWeightOfByte = 64;

/// The choice of a form for each node, as an optimization problem: variables are the nodes. Weights
/// are bytes of traffic; a launch counts as TargetTraits::launch_bytes.
///
/// - A stored result of a library, and an input of the model, is stored again if a library or an
///   output needs another order: written, read, and a launch.
/// - A loop (pointwise, reduction, gather) reads and writes any order. It costs a share of the
///   bytes if neighbours in memory are not neighbours in the loop. A result that others read in its
///   own order too is written twice.
/// - Elementwise operators after a library call fuse into it in its order, and are a kernel in
///   another.
/// - Matmuls read and write row-major or column-major matrices, with any batch order; attention
///   row-major ones. A view counts as whatever reads or computes its value.
LayoutProblem layout_problem(const Graph& graph, const TargetTraits& target,
                             const Candidates& candidates, const std::vector<bool>& is_static);

}  // namespace sinter::fusion
