// The operands of matrix products as strided accesses of stored tensors.
#pragma once

#include <string>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

/// True for a view of one input that is not a concatenation.
bool is_single_view(const Node& node);
/// Those among `nodes`, of a value of type `from`, in a graph of their own.
Graph views_only(const Graph& graph, const TensorType& from, std::span<const NodeId> nodes);

/// True for MatMul, QuantMatMul and BlockMatMul: x [.., m, k] times a right operand.
bool is_matrix_product(const Node& node);
/// True for a MatMul, BlockMatMul or Conv whose operands have 8 bits each, or a QuantMatMul whose x
/// does, and whose result is their sums.
bool has_eight_bit_operands(const Graph& graph, const Node& node);
/// True for one that the target multiplies as it is.
bool multiplies_narrow(const TargetTraits& target, const Graph& graph, const Node& node);
/// True for a fused node all of whose products kernels of our own multiply: of 16-bit floats, and
/// what the target says of 8 bits; everything else is the library's.
bool has_gemm_kernel(const TargetTraits& target, const Node& fused);
/// Why the target has no product of `x` and the quantized weights of `node`, a QuantMatMul; empty
/// if it has one.
std::string quantized_refusal(const TargetTraits& target, const Graph& graph, const Node& node,
                              DType x);
/// Operands of such a product that may be read through views: both, x alone of a product with
/// quantized weights.
std::size_t viewed_operands(const Node& product);

/// An operand followed back through views, and through products with scalar constants, which become
/// part of the product's factor.
struct Operand {
  ValueId source;
  std::vector<NodeId> nodes;  // from the source on
  double alpha = 1;
};

/// Follows operand `i` of `product` as far back as it stays a matrix that a library can address:
/// one of its last two dimensions is contiguous and the other's stride is no less than that one's
/// extent. Where that is one row or column, the dimension that takes its place must step so.
/// `by_rows`: the last dimension is the contiguous one.
Operand fold_operand(const Graph& graph, const Node& product, std::size_t i, bool by_rows = false);
/// The operand inside a body.
ValueId build_operand(BodyBuilder& body, const Graph& graph, const Operand& operand, ValueId value);
/// True if `value`, followed back through all its views within `graph`, is such a matrix.
bool is_matrix_access(const Graph& graph, ValueId value);
/// The factor, if `node` multiplies `value` by (or divides it by) a scalar constant.
std::optional<double> scalar_factor(const Graph& graph, const Node& node, ValueId value);

}  // namespace sinter::fusion
