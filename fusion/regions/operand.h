// The operands of matrix products as strided accesses of stored tensors.
#pragma once

#include <vector>

#include "fusion/regions/rebuild.h"
#include "ir/graph.h"

namespace sinter::fusion {

/// True for a view of one input that is not a concatenation.
bool is_single_view(const ir::Node& node);

/// True for MatMul and QuantMatMul: x [.., m, k] times a right operand.
bool is_matrix_product(const ir::Node& node);
/// Operands of such a product that may be read through views: both of a MatMul, x alone of a
/// product with quantized weights.
std::size_t viewed_operands(const ir::Node& product);

/// An operand followed back through views, and through products with scalar constants, which become
/// part of the product's factor.
struct Operand {
  ir::ValueId source;
  std::vector<ir::NodeId> nodes;  // from the source on
  double alpha = 1;
};

/// Follows `value` as far back as it stays a matrix that a library can address: one of its last two
/// dimensions is contiguous and the other's stride is no less than that one's extent.
Operand fold_operand(const ir::Graph& graph, ir::ValueId value);
/// The operand inside a body.
ir::ValueId build_operand(BodyBuilder& body, const ir::Graph& graph, const Operand& operand,
                          ir::ValueId value);
/// True if `value`, followed back through all its views within `graph`, is such a matrix.
bool is_matrix_access(const ir::Graph& graph, ir::ValueId value);
/// The factor, if `node` multiplies `value` by (or divides it by) a scalar constant.
std::optional<double> scalar_factor(const ir::Graph& graph, const ir::Node& node,
                                    ir::ValueId value);

}  // namespace sinter::fusion
