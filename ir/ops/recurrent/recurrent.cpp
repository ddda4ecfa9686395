// SPDX-License-Identifier: Apache-2.0
// A recurrent layer: RNN, GRU or LSTM of one or both directions, after the matmul of its input.
//
// Recurrent(x, weights, bias?, initial_h?, initial_c?, lengths?)
//   {cell, direction, linear_before_reset, bias, initial_h, initial_c, lengths, special} body
//
//   x        [steps, batch, directions * gates * hidden]: the input's part of all gates, and biases
//   weights  [directions, gates * hidden, hidden], gates in ONNX's order
//   bias     [directions, gates * hidden], of the recurrent matmul alone
//   initial_h, initial_c [directions, batch, hidden]; zero if absent
//   lengths  [batch], integers: steps of each sequence; all steps if absent
//   results  y [steps, directions, batch, hidden], the last h [directions, batch, hidden] and, for
//            an LSTM, the last c
//
// The flags say which inputs are present, in this order; only the body reads further ones. The
// body, with the same inputs, is the layer as loops: it defines the node, and replaces it if no
// kernel exists. `special` says what is unusual about the cell, or nothing.
#include <fmt/format.h>

#include "ir/graph.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

/// The body determines the result types; this checks the inputs.
std::vector<TensorType> infer_recurrent(const Attrs& attrs, Types inputs) {
  const std::string& cell = attrs.get_string("cell");
  if (cell != "LSTM" && cell != "GRU" && cell != "RNN")
    invalid(fmt::format("cell is LSTM, GRU or RNN, not {}", cell));
  const std::string& direction = attrs.get_string("direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    invalid(fmt::format("direction is forward, reverse or bidirectional, not {}", direction));
  std::size_t count = 2;
  for (const char* flag : {"bias", "initial_h", "initial_c", "lengths"}) {
    const std::int64_t given = attrs.get_int(flag);
    if (given != 0 && given != 1) invalid(fmt::format("{} is {}", flag, given));
    count += static_cast<std::size_t>(given);
  }
  if (inputs.size() < count)
    invalid(fmt::format("has {} inputs, but {} are said to be given", inputs.size(), count));
  if (inputs[0].shape.size() != 3 || inputs[1].shape.size() != 3)
    invalid("needs x [steps, batch, gates] and weights [directions, gates, hidden], found " +
            list_types(inputs));
  return {};
}

}  // namespace

std::vector<OpDef> recurrent_ops() {
  const auto flag = [](const char* name) {
    return AttrSpec{name, AttrKind::kInt, Attr(std::int64_t{0})};
  };
  OpDef op{.name = "Recurrent",
           .kind = OpKind::kLibrary,
           .kernel = "recurrent",
           .min_inputs = 2,
           .max_inputs = -1,
           .attrs = {{"cell", AttrKind::kString, std::nullopt},
                     {"direction", AttrKind::kString, std::nullopt},
                     flag("linear_before_reset"),
                     flag("bias"),
                     flag("initial_h"),
                     flag("initial_c"),
                     flag("lengths"),
                     {"special", AttrKind::kString, Attr(std::string())}},
           .infer = infer_recurrent,
           .detail = CompositeDef{[](GraphBuilder& builder, const Node& node,
                                     std::span<const ValueId> inputs) {
             return inline_graph(builder, *node.body, inputs);
           }},
           .has_body = true};
  return {op};
}

}  // namespace sinter::ir::ops
