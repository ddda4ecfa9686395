// SPDX-License-Identifier: Apache-2.0
// Operands of matmuls as strided accesses of stored tensors.
#pragma once

#include <string>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/rebuild.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

/// True for a view of one input (not a concatenation).
bool is_single_view(const Node& node);
/// The views among `nodes`, which start from a value of type `from`, as a separate graph.
Graph views_only(const Graph& graph, const TensorType& from, std::span<const NodeId> nodes);

/// True for a MatMul: x [.., m, k] times a right operand, in whatever formats.
bool is_matrix_product(const Node& node);
/// True for a MatMul by weights of 4 bits.
bool has_four_bit_weights(const Node& node);
/// True for a MatMul or Conv with 8-bit operands, or with 8-bit x and weights of 4 bits, whose
/// result is the accumulators.
bool has_eight_bit_operands(const Graph& graph, const Node& node);
/// True if the target multiplies these operands directly.
bool multiplies_narrow(const TargetTraits& target, const Graph& graph, const Node& node);
/// True for a fused node whose matmuls our kernels can compute: floats of 16 and 32 bits, and the
/// target's 8-bit pairs; all else is the library's.
bool has_gemm_kernel(const TargetTraits& target, const Node& fused);
/// Why the target cannot multiply `x` by the scaled weights of `node`; empty if it can.
std::string quantized_refusal(const TargetTraits& target, const Graph& graph, const Node& node,
                              DType x);
/// The same for another format in the place of the node's, with zero points only if that has them.
std::string quantized_refusal(const TargetTraits& target, const Graph& graph, const Node& node,
                              DType x, const ir::ScaleFormat& format);
/// Number of operands that may be read through views: both, or only x with quantized weights.
std::size_t viewed_operands(const Node& product);

/// An operand traced back through views, and through multiplications by scalar constants, which are
/// merged into the matmul's factor.
struct Operand {
  ValueId source;
  std::vector<NodeId> nodes;  // from the source on
  double alpha = 1;
};

/// Traces operand `i` of `product` back while a library can address it as a matrix: one of its last
/// two dimensions is contiguous, and the stride of the other is at least that one's extent. If that
/// is a single row or column, the dimension that replaces it must have such a stride. `by_rows`:
/// the last dimension is the contiguous one.
Operand fold_operand(const Graph& graph, const Node& product, std::size_t i, bool by_rows = false);
/// Traces `value`, which a product adds, back through views while its rows are contiguous.
Operand fold_rows(const Graph& graph, ValueId value);
/// The operand inside a body.
ValueId build_operand(BodyBuilder& body, const Graph& graph, const Operand& operand, ValueId value);
/// True if `value`, traced through all its views in `graph`, is such a matrix.
bool is_matrix_access(const Graph& graph, ValueId value);
/// The factor, if `node` multiplies `value` by (or divides it by) a scalar constant.
std::optional<double> scalar_factor(const Graph& graph, const Node& node, ValueId value);

}  // namespace sinter::fusion
