// SPDX-License-Identifier: Apache-2.0
// Delta reduction: the smallest graph that still fails.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace sinter::tools {

/// A graph and what is put into it.
struct TestCase {
  ir::Graph graph;
  std::vector<ir::Tensor> inputs;
};

struct ReduceOptions {
  /// True if the case still shows what is looked for. One that cannot even be compiled does not.
  std::function<bool(const TestCase&)> fails;
  std::size_t most_trials = 400;  // calls of `fails`
};

struct Reduced {
  TestCase test;
  std::size_t trials = 0;
};

/// Makes `start`, which fails, smaller while it fails: fewer outputs, fewer nodes on either side
/// (what feeds the others becomes an input with the reference's values) and in between, smaller
/// dimensions (the leading part of inputs and constants), inputs of one value as constants. Sizes
/// that depend on symbols are tried as numbers first.
Reduced reduce(TestCase start, const ReduceOptions& options);

/// `graph` with the bodies of its fused nodes in their place.
ir::Graph flattened(const ir::Graph& graph);

}  // namespace sinter::tools
