// SPDX-License-Identifier: Apache-2.0
// Operands of matmuls that are dequantized 8-bit integers.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A scale or zero point of an operand.
struct OperandParameter {
  ValueId value;
  std::size_t rank = 0;   // of the values to which it is applied and broadcasts
  std::size_t views = 0;  // number of the operand's views that come after it
};

/// operand = views((values - zero) * scale); without scale for integer matmuls.
struct QuantizedOperand {
  ValueId values;             // i8 or u8
  std::vector<NodeId> views;  // single-input views, from the values on
  std::optional<OperandParameter> zero, scale;
  std::vector<NodeId> nodes;  // that compute the operand from the values
};

/// `operand` in this form, for any spelling of DequantizeLinear and of integer differences: with
/// and without zero point, with casts merged or not, and views anywhere. Nothing for other
/// values.
std::optional<QuantizedOperand> find_quantized_operand(const Graph& graph, ValueId operand);

/// The shape of `parameter` after its views, with the rank of `operand`'s result; each dimension is
/// 1 or the operand's. Nothing if a view cannot be applied to it.
std::optional<Shape> parameter_shape(const Graph& graph, const QuantizedOperand& operand,
                                     const OperandParameter& parameter);
/// `parameter`, whose value in `builder` is `value`, in that shape; one number as a scalar.
ValueId place_parameter(GraphBuilder& builder, const Graph& graph, const QuantizedOperand& operand,
                        const OperandParameter& parameter, ValueId value);

/// `values` after the operand's views.
ValueId place_values(GraphBuilder& builder, const Graph& graph, const QuantizedOperand& operand,
                     ValueId values);

/// Adds a node, or evaluates it if all inputs are constants.
ValueId add_folded(GraphBuilder& builder, std::string_view op, std::vector<ValueId> inputs,
                   Attrs attrs = {});

}  // namespace sinter::fusion
