// The living definition of what a graph computes: slow, plain, accumulating in float64.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace sinter::ir {

/// Values of the symbols that make the inputs' types match `inputs`; throws Error(kUsage) naming
/// the input, its type and the shape found on any mismatch (rank, type, dimension, range).
Bindings bind_symbols(const Graph& graph, Tensors inputs);

/// `attrs` with every dimension in them as the number that it is under `bindings`.
Attrs evaluate_attrs(const Attrs& attrs, const Bindings& bindings);

struct EvaluateOptions {
  /// True: float16, bfloat16 and float32 intermediate values are kept as float64 and only graph
  /// outputs are rounded. False: every node's result is rounded to its type.
  bool keep_wide = false;
  /// With `keep_wide`, of the graph's own nodes: whether results are rounded to their types all the
  /// same. Unset: none is.
  std::function<bool(const Node& node)> rounds;
  /// Called after each node with its results, if set (progress, per-node comparison).
  std::function<void(const Node& node, Tensors results)> on_node;
  /// Of all loops together; more throw Error(kUsage).
  std::int64_t max_iterations = 1'000'000;
};

/// Evaluates `graph`; the outputs in order.
std::vector<Tensor> evaluate(const Graph& graph, Tensors inputs,
                             const EvaluateOptions& options = {});

/// Evaluates one operator on concrete tensors, with its attributes' Dims evaluated under
/// `bindings`.
std::vector<Tensor> evaluate_op(const OpDef& op, const Attrs& attrs, Tensors inputs,
                                const Bindings& bindings = {});

}  // namespace sinter::ir
