// SPDX-License-Identifier: Apache-2.0
// Nodes of a matmul or convolution of 8-bit codes.
#pragma once

#include <optional>

#include "fusion/context.h"
#include "fusion/scales/quantized_operand.h"

namespace sinter::fusion {

/// One operand, as it is multiplied.
struct SunkOperand {
  QuantizedOperand found;
  bool shifted = false;              // u8 multiplied as i8: values and zero point minus 128
  bool has_zero = false;             // not known to be zero
  std::optional<Tensor> difference;  // values - zero, if known and within 8 bits
};

/// A MatMul, GroupedMatMul or Conv of such operands.
struct SunkProduct {
  const Node* node = nullptr;
  SunkOperand x;
  std::optional<SunkOperand> w;  // none: the weights' format has their scales
  bool is_conv() const { return node->op->name == "Conv"; }
  bool is_grouped() const { return node->op->name == "GroupedMatMul"; }
};

/// Difference between an unsigned value and the signed one that represents it.
inline constexpr int kUnsignedShift = 128;

/// The summed dimensions of an operand of a matmul or convolution.
Ints summed_axes(const Node& node, bool is_left, std::size_t rank);

/// Operands and parameters in the graph under construction; absent ones are invalid.
struct ProductInputs {
  ValueId x, x_zero, x_scale, w, w_zero, w_scale, bias, offsets;
  std::vector<ValueId> weights;  // in a format: the inputs after x
};

/// Adds `product` of a node of `graph` and the conversion of its sums; returns the node's
/// result.
ValueId write_product(GraphBuilder& builder, const Graph& graph, const SunkProduct& product,
                      const ProductInputs& inputs);

}  // namespace sinter::fusion
