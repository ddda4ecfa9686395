// SPDX-License-Identifier: Apache-2.0
// Delta reduction: the smallest graph that still fails.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace sinter::tools {

/// A graph and its inputs.
struct TestCase {
  ir::Graph graph;
  std::vector<ir::Tensor> inputs;
};

struct ReduceOptions {
  /// True if the case still shows the failure. A case that does not compile does not.
  std::function<bool(const TestCase&)> fails;
  std::size_t most_trials = 400;  // maximum calls of `fails`
};

struct Reduced {
  TestCase test;
  std::size_t trials = 0;
};

/// Reduces `start`, which fails, while it still fails: fewer outputs; fewer nodes at either end and
/// in between (their results become inputs with the reference's values); smaller dimensions (the
/// leading part of inputs and constants); constants for inputs of one value. Tries numbers for
/// symbolic sizes first.
Reduced reduce(TestCase start, const ReduceOptions& options);

/// `graph` with fused nodes replaced by their bodies.
ir::Graph flattened(const ir::Graph& graph);

}  // namespace sinter::tools
