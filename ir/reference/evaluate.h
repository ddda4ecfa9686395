// SPDX-License-Identifier: Apache-2.0
// The definition of what a graph computes: simple and slow, with float64 accumulation.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace sinter::ir {

/// Values of the symbols for which the inputs' types match `inputs`; throws Error(kUsage) with the
/// input, its type and the actual shape on any mismatch (rank, type, dimension, range).
Bindings bind_symbols(const Graph& graph, Tensors inputs);

/// `attrs` with every dimension evaluated under `bindings`.
Attrs evaluate_attrs(const Attrs& attrs, const Bindings& bindings);

/// One of the ranks that evaluate a graph together (ir/ranks/ranks.h).
struct EvaluatingRank {
  std::int64_t number = 0;
  /// Gives all ranks' values of a collective's operand, in order, for this one's own.
  std::function<std::vector<Tensor>(const Tensor& own)> meet;
};

struct EvaluateOptions {
  /// True: keeps float16, bfloat16 and float32 intermediate values as float64 and rounds only graph
  /// outputs. False: rounds every node's result to its type.
  bool keep_wide = false;
  /// With `keep_wide`, for the graph's own nodes: whether to round results anyway. Unset:
  /// never.
  std::function<bool(const Node& node)> rounds;
  /// Called after each node with its results, if set (progress, per-node comparison).
  std::function<void(const Node& node, Tensors results)> on_node;
  /// Limit over all loops; more throw Error(kUsage).
  std::int64_t max_iterations = 1'000'000;
  /// Set by evaluate_ranks; null: the graph is for one rank.
  const EvaluatingRank* rank = nullptr;
};

/// Evaluates `graph`; the outputs in order.
std::vector<Tensor> evaluate(const Graph& graph, Tensors inputs,
                             const EvaluateOptions& options = {});

/// Evaluates a graph of several ranks: `inputs` and the results are those of each rank. Ranks run
/// side by side, a thread each; an error of one ends all and is thrown here.
std::vector<std::vector<Tensor>> evaluate_ranks(const Graph& graph,
                                                std::span<const std::vector<Tensor>> inputs,
                                                const EvaluateOptions& options = {});

/// Evaluates one operator on concrete tensors, with Dims in its attributes evaluated under
/// `bindings`.
std::vector<Tensor> evaluate_op(const OpDef& op, const Attrs& attrs, Tensors inputs,
                                const Bindings& bindings = {});

}  // namespace sinter::ir
