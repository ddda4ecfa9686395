// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/recurrence/recurrence.h"

#include <cmath>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {

RecurrenceResults add_recurrence(NodeContext& node, const Recurrence& layer) {
  std::vector<ValueId> inputs{layer.query, layer.key, layer.value};
  for (const ValueId optional : {layer.decay, layer.beta, layer.state})
    if (optional.valid()) inputs.push_back(optional);
  const bool is_ragged = layer.starts.valid();
  if (is_ragged) {
    // A sequence reads its own state at its first token, and writes it at its last one.
    const Dim tokens = node.shape(layer.key)[1];
    const Term starts = Term(node, layer.starts).cast(DType::kInt64);
    const Dim sequences = starts.shape()[0] - Dim(1);
    const Term ends = slice_some(starts, 0, Dim(1), sequences).reshape({Dim(1), sequences});
    const Term token = iota(node, tokens, 0, 2);
    const auto count = [&](const Term& is_before) {
      return reduce("ReduceSum", is_before.cast(DType::kInt32), 1);
    };
    const Term ended = count(ends.with("LessOrEqual", token)),
               ends_here = count(ends.with("Equal", token + 1));
    const Term sequence = ended.with("Min", size_of_dim(node, sequences, DType::kInt32) - 1);
    const Term is_last = ends_here.with("Greater", 0);
    inputs.insert(inputs.end(), {starts.cast(DType::kInt32).value(), sequence.value(),
                                 select(is_last, sequence, sequence.number(-1)).value()});
  }
  const auto results =
      node.builder().add_multi("LinearAttention", inputs,
                               {{"rule", std::string(layer.beta.valid() ? "delta" : "linear")},
                                {"scale", layer.scale},
                                {"decay", static_cast<std::int64_t>(layer.decay.valid())},
                                {"state", static_cast<std::int64_t>(layer.state.valid())},
                                {"ragged", std::int64_t{is_ragged}}});
  return {results[0], results[1]};
}

UpdateRule read_update_rule(NodeContext& node) {
  const std::string rule = node.attr_string("update_rule", "gated_delta");
  const UpdateRule result{rule == "gated" || rule == "gated_delta",
                          rule == "delta" || rule == "gated_delta"};
  if (!result.is_gated && !result.is_delta && rule != "linear")
    node.invalid("attribute 'update_rule' has the unknown value '" + rule + "'");
  return result;
}

double read_scale(NodeContext& node, const Dim& key_size) {
  const double scale = node.attr_float("scale", 0);
  if (scale != 0) return scale;
  if (!key_size.is_constant()) node.unsupported("the size of its heads is symbolic: fix it");
  return 1 / std::sqrt(static_cast<double>(key_size.value()));
}

std::int64_t read_window(NodeContext& node) {
  const std::int64_t window = node.attr_int("state_window", 0);
  if (window < 0 || window > 8)
    node.invalid("attribute 'state_window' is {}; it must be 0 to 8", window);
  return window;
}

ValueId last_slot(NodeContext& node, ValueId states) {
  const Shape shape = node.shape(states);
  if (shape.empty() || !shape[0].is_constant())
    node.invalid("past_state {} has no window of states in front", node.type(states));
  return element(node, states, 0, shape[0].value() - 1);
}

ValueId stack_slots(NodeContext& node, std::int64_t window, const Dim& length,
                    const std::function<ValueId(std::int64_t)>& slot) {
  std::vector<ValueId> slots;
  const ValueId tokens = node.folder().scalar_of(length);
  for (std::int64_t j = 0; j < window; ++j) {
    const ValueId state = slot(j);
    const ValueId is_there = node.add(
        "LessOrEqual", {node.constant(DType::kInt64, static_cast<double>(window - j)), tokens});
    slots.push_back(node.add("Where", {is_there, state, node.constant(node.dtype(state), 0)}));
  }
  return stack(node, slots, node.type(slots[0]), 0);
}

ValueId behind_zeros(NodeContext& node, ValueId x, std::int64_t axis, std::int64_t count) {
  Shape shape = node.shape(x);
  shape[static_cast<std::size_t>(axis)] = Dim(count);
  return node.concat({node.expand(node.constant(node.dtype(x), 0), shape), x}, axis);
}

ValueId activated(NodeContext& node, ValueId x) {
  const std::string activation = node.attr_string("activation", "none");
  if (activation == "none") return x;
  if (activation != "silu" && activation != "swish")
    node.invalid("attribute 'activation' has the unknown value '" + activation + "'");
  return node.add("Silu", {x});
}

}  // namespace sinter::frontend
