// Operands of products that stand for integers of 8 bits.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A scale or zero point of an operand.
struct OperandParameter {
  ValueId value;
  std::size_t rank = 0;   // of the values that it is applied to, which it broadcasts to
  std::size_t views = 0;  // of the operand's, the last so many: those that come behind
};

/// operand = views((values - zero) * scale). Of an integer product's operand there is no scale.
struct QuantizedOperand {
  ValueId values;             // i8 or u8
  std::vector<NodeId> views;  // of one input, from the values on
  std::optional<OperandParameter> zero, scale;
  std::vector<NodeId> nodes;  // all that make the operand of the values
};

/// What `operand` is, in any spelling of DequantizeLinear and of differences of integers: with and
/// without a zero point, with casts merged or not, and views anywhere in between. Nothing if it is
/// no such thing.
std::optional<QuantizedOperand> find_quantized_operand(const Graph& graph, ValueId operand);

/// The shape of `parameter` behind its views, of the rank of `operand`'s result, where each of its
/// dimensions is one or the operand's; nothing if some view does not let it pass as such.
std::optional<Shape> parameter_shape(const Graph& graph, const QuantizedOperand& operand,
                                     const OperandParameter& parameter);
/// `parameter`, whose value is `value` in `builder`, in that shape; one number as a scalar.
ValueId place_parameter(GraphBuilder& builder, const Graph& graph, const QuantizedOperand& operand,
                        const OperandParameter& parameter, ValueId value);

/// `values` behind the operand's views.
ValueId place_values(GraphBuilder& builder, const Graph& graph, const QuantizedOperand& operand,
                     ValueId values);

/// Adds a node, or evaluates it where all inputs are constants.
ValueId add_folded(GraphBuilder& builder, std::string_view op, std::vector<ValueId> inputs,
                   Attrs attrs = {});

}  // namespace sinter::fusion
