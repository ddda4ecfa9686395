// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/quantization/quantized.h"

#include "frontend/ops/products.h"

namespace sinter::frontend {

Term as_float(NodeContext& node, ValueId value) { return Term(node, value).cast(DType::kFloat32); }

Term one_number(NodeContext& node, std::size_t i, const char* what) {
  const ValueId value = node.input(i, what);
  if (ir::element_count(node.shape(value)) != Dim(1))
    node.invalid("input {} ({}) is {}; it must be one number", i, what, node.type(value));
  return Term(node, value).reshape({});
}

std::optional<ValueId> optional_input(NodeContext& node, std::size_t i) {
  return node.has_input(i) ? std::optional(node.input(i, "parameter")) : std::nullopt;
}

void require_integer(NodeContext& node, DType dtype, const char* what) {
  if (!is_integer(dtype))
    node.unsupported("{} of type {}; only integers are supported", what, to_string(dtype));
}

void require_zeros(NodeContext& node, std::size_t i, const char* what) {
  if (!node.has_input(i)) return;
  const ValueId zero = node.input(i, what);
  const ir::Tensor* given = node.builder().constant_of(zero);
  const std::optional<ir::Tensor> constant =
      given != nullptr ? *given : node.folder().constant(zero);
  if (!constant) {
    node.folder().need(zero);
    node.unsupported("input {} ({}) is computed; of floats of 8 bits it must be the constant 0", i,
                     what);
  }
  for (std::int64_t k = 0; k < constant->element_count(); ++k)
    if (constant->at(k) != 0)
      node.invalid("input {} ({}) is {}; of floats of 8 bits it must be 0", i, what,
                   constant->at(k));
}

Term difference(NodeContext& node, ValueId value, std::optional<ValueId> zero) {
  require_integer(node, node.dtype(value), "a quantized input");
  const Term exact = Term(node, value).cast(DType::kInt32);
  return zero ? exact - Term(node, *zero).cast(DType::kInt32) : exact;
}

Term rounded(const Term& x, const Term& scale, const Term& zero) {
  return x.with("Quotient", scale).apply("Round") + zero;
}

Term quantized(const Term& x, const Term& scale, const Term& zero, DType to) {
  return rounded(x, scale, zero).cast(to);
}

ValueId matrix_parameter(NodeContext& node, ValueId parameter, bool left) {
  const Shape shape = node.shape(parameter);
  if (shape.size() != 1) return parameter;
  if (shape[0] == Dim(1)) return node.reshape(parameter, {});
  return left ? node.reshape(parameter, {shape[0], Dim(1)}) : parameter;
}

Term integer_product(NodeContext& node, ValueId a, std::optional<ValueId> a_zero, ValueId b,
                     std::optional<ValueId> b_zero) {
  if (a_zero) a_zero = matrix_parameter(node, *a_zero, true);
  if (b_zero) b_zero = matrix_parameter(node, *b_zero, false);
  return {node, multiply_matrices(node, difference(node, a, a_zero).value(),
                                  difference(node, b, b_zero).value())};
}

}  // namespace sinter::frontend
