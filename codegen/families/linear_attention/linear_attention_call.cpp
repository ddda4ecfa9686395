// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/linear_attention/linear_attention_call.h"

#include "ir/recurrence/linear_attention.h"

namespace sinter::codegen {
namespace {

ir::LinearAttention layer_of(const OperatorRegion& region) {
  return ir::linear_attention(region.node.attrs, region.body.types(region.node.inputs));
}

Dim bytes_of(const ir::TensorType& type) {
  Dim bytes(static_cast<std::int64_t>(size_of(type.dtype)));
  for (const Dim& dim : type.shape) bytes *= dim;
  return bytes;
}

}  // namespace

StepCost linear_attention_cost(const OperatorRegion& region) {
  const ir::LinearAttention layer = layer_of(region);
  Dim read, written;
  const ir::LinearAttentionInputs& which = layer.inputs;
  for (std::size_t i = 0; i < region.node.inputs.size(); ++i)
    if (i != which.state) read += bytes_of(region.type(i));
  written = bytes_of(region.body.type(region.node.outputs[0]));
  // Of a ragged batch's slots those of its sequences.
  ir::TensorType states = region.body.type(region.node.outputs[1]);
  states.shape[0] = layer.sequences;
  written += bytes_of(states);
  if (which.state) {
    states.dtype = region.type(*which.state).dtype;
    read += bytes_of(states);
  }
  // A multiplication and an addition for each element of a state: to write, to read, to erase.
  const std::int64_t updates = layer.rule == ir::UpdateRule::kLinear ? 1 : 2;
  const Dim operations = layer.batch * layer.length * layer.key_size * layer.value_size *
                         Dim(2 * (updates * layer.heads() + layer.out_heads()));
  return {read, written, operations};
}

plan::fb::OperatorStepT linear_attention_call(const OperatorRegion& region, ExprTable& exprs) {
  const ir::LinearAttention layer = layer_of(region);
  // An absent operand has no elements, in any buffer.
  const auto optional = [&](const std::optional<std::size_t>& input) -> OperatorOperand {
    if (!input) return {region.buffer(0), {Dim(0), Dim(0), Dim(0), Dim(0)}};
    OperatorOperand operand = region.input(*input);
    if (operand.shape.size() == 3) operand.shape.emplace_back(1);
    return operand;
  };
  const std::int64_t decay = !layer.inputs.decay ? 0 : layer.by_channel ? 2 : 1;
  plan::fb::OperatorStepT step = operator_step(
      layer.is_ragged() ? "ragged_linear_attention" : "linear_attention", exprs,
      {region.input(0), region.input(1), region.input(2), optional(layer.inputs.decay),
       optional(layer.inputs.beta), optional(layer.inputs.erase), optional(layer.inputs.state)},
      {region.output(0), region.output(1)},
      {{"rule", static_cast<std::int64_t>(layer.rule)},
       {"decay", decay},
       {"state", std::int64_t{layer.inputs.state.has_value()}},
       {"scale", layer.scale}});
  for (const auto& input : {layer.inputs.starts, layer.inputs.sources, layer.inputs.slots})
    if (input) step.inputs.push_back(operator_tensor(region.input(*input), exprs));
  return step;
}

}  // namespace sinter::codegen
