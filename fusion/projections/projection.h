// SPDX-License-Identifier: Apache-2.0
// Matmuls of activations with constant weights, also for each group of rows, and merging several
// that read the same value.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

/// A node that converts the accumulators of an 8-bit matmul to floats, and the bias after it.
struct SumsStep {
  const Node* node = nullptr;
  std::size_t operand = 0;       // index of the operand that comes from the preceding step
  const Tensor* bias = nullptr;  // of n elements, or null
};

/// A matmul of an activation with a constant weight of k rows and n columns, and the nodes that
/// process its result; or a GroupedMatMul, whose weights have a matrix for each group.
struct Projection {
  const Node* matmul = nullptr;
  const Tensor* weight = nullptr;          // plain weights
  std::vector<const Tensor*> quantized{};  // scaled weights: the inputs after x
  bool transposed = false;                 // weight is [n, k]
  std::int64_t k = 0, n = 0;
  /// For an 8-bit matmul that ends with 16-bit floats. The first step has no node: its bias is that
  /// of the accumulators.
  std::vector<SumsStep> steps{};
  const Tensor* bias = nullptr;      // after all of these, or null
  std::vector<const Node*> nodes{};  // after the matmul, in order
  ValueId result() const { return (nodes.empty() ? matmul : nodes.back())->outputs[0]; }
};

/// `node` in this form; nothing for other nodes, and for 8-bit matmuls without conversion to 16-bit
/// floats if the target's kernels end with these.
std::optional<Projection> find_projection(const Graph& graph, const Node& node,
                                          const TargetTraits& target);

/// True if the weights, and the steps after them, of both can be joined.
bool fit_together(const Graph& graph, const Projection& a, const Projection& b);

/// True if both, operands of steps, are equal for all columns: by row, or one number.
bool is_shared(const Graph& graph, ValueId a, ValueId b);

/// One matmul of the columns of all `parts`, which fit together, with its steps, and a slice for
/// each result.
Piece joined_projections(const Graph& graph, std::vector<Projection> parts);

}  // namespace sinter::fusion
