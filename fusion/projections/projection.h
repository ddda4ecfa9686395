// Products of activations with constant weights, and what makes one of several that read the same.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

/// A node that makes floats of the sums of a product of 8 bits, and the bias behind it.
struct SumsStep {
  const Node* node = nullptr;
  std::size_t place = 0;         // the operand that is what is in front of it
  const Tensor* bias = nullptr;  // of n elements, or none
};

/// A product of an activation with a constant weight of k rows and n columns, and what is done with
/// its result.
struct Projection {
  const Node* matmul = nullptr;
  const Tensor* weight = nullptr;          // of a MatMul
  std::vector<const Tensor*> quantized{};  // of a QuantMatMul: its operands behind x
  bool transposed = false;                 // weight is [n, k]
  std::int64_t k = 0, n = 0;
  /// Of a product of 8 bits that ends with 16-bit floats. The first step has no node: its bias is
  /// that of the sums.
  std::vector<SumsStep> steps{};
  const Tensor* bias = nullptr;      // of all that, or none
  std::vector<const Node*> nodes{};  // behind the product, in order
  ValueId result() const { return (nodes.empty() ? matmul : nodes.back())->outputs[0]; }
};

/// What `node` is; nothing if it is no such product, or one of 8 bits whose sums are not made
/// 16-bit floats where the target's kernels end with these.
std::optional<Projection> find_projection(const Graph& graph, const Node& node,
                                          const TargetTraits& target);

/// True if the weights of both can lie side by side, and what follows as well.
bool fit_together(const Graph& graph, const Projection& a, const Projection& b);

/// True if both, operands of steps, are the same for all columns: each row's own, or one number.
bool is_shared(const Graph& graph, ValueId a, ValueId b);

/// One product of the columns of all `parts`, which fit together, with what follows it, and a slice
/// for the result of each.
Piece joined_projections(const Graph& graph, std::vector<Projection> parts);

}  // namespace sinter::fusion
