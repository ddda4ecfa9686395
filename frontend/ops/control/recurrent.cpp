// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: one operator whose body is a loop over a sequence, unrolled if short.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/control/activation.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/control/while_body.h"
#include "frontend/ops/products.h"
#include "frontend/ops/table/op_table.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

/// One recurrent node: its sizes and the inputs common to all directions.
struct Layer {
  std::int64_t gates = 0;
  Dim steps, batch, hidden;
  DType dtype = DType::kFloat32;
  std::size_t directions = 1;
  bool starts_backwards = false;
  bool batch_first = false;  // layout 1
  bool quantized = false;    // 8-bit weights; left operands are quantized dynamically
  std::optional<double> clip;
  ValueId x;  // [steps, batch, inputs]
};

/// Operands of the steps of all directions; see ir/ops/recurrent/recurrent.cpp. Missing inputs are
/// invalid.
struct Operands {
  ValueId projected, recurrent, recurrent_bias, h, c, lengths;
  ValueId peepholes;  // [directions, 3 * hidden]
};

/// Operands of one direction.
struct Direction {
  ValueId projected;  // [steps, batch, gates * hidden]: the input's part, bias included
  ValueId recurrent;  // [hidden, gates * hidden]
  ValueId scale;      // scale of quantized `recurrent`: one value, or one per column
  std::optional<ValueId> zero_point;
  ValueId recurrent_bias;  // [gates * hidden]; invalid: included in `projected`
  ValueId peepholes;       // [3 * hidden], or invalid
  std::vector<Activation> activations;
};

void expect_shape(NodeContext& node, std::size_t i, const char* what, const Shape& shape) {
  const ir::TensorType type = node.type(node.input(i, what));
  ir::require_equal(type.shape, shape, [&] {
    return fmt::format("input {} ({}) is {}; it must be {}", i, what, type, shape);
  });
}

Layer read_layer(NodeContext& node, std::int64_t gates, bool quantized = false) {
  Layer layer;
  layer.quantized = quantized;
  layer.gates = gates;
  layer.batch_first = !quantized && node.opset() >= 14 && node.attr_int("layout", 0) != 0;
  ValueId x = node.input(0, "X");
  const ValueId w = node.input(1, "W"), r = node.input(2, "R");
  if (node.rank(x) != 3 || node.rank(w) != 3 || node.rank(r) != 3)
    node.invalid("X, W and R must have three dimensions, but are {}, {} and {}", node.type(x),
                 node.type(w), node.type(r));
  const std::string direction = node.attr_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    node.invalid("attribute 'direction' has the unknown value '" + direction + "'");
  layer.directions = direction == "bidirectional" ? 2 : 1;
  layer.starts_backwards = direction == "reverse";
  if (layer.batch_first) x = node.transpose(x, {1, 0, 2});
  const Shape shape = node.shape(x);
  layer.x = x;
  layer.dtype = node.dtype(x);
  layer.batch = shape[1];
  layer.hidden = node.shape(r)[quantized ? 1 : 2];
  if (node.has_attr("hidden_size") && Dim(node.attr_int("hidden_size")) != layer.hidden)
    node.invalid("attribute 'hidden_size' is {}, but R is {}", node.attr_int("hidden_size"),
                 node.type(r));
  const Dim rows = Dim(gates) * layer.hidden, count(static_cast<std::int64_t>(layer.directions));
  expect_shape(node, 1, "W",
               quantized ? Shape{count, shape[2], rows} : Shape{count, rows, shape[2]});
  expect_shape(node, 2, "R",
               quantized ? Shape{count, layer.hidden, rows} : Shape{count, rows, layer.hidden});
  for (const ValueId weights : {w, r})
    if (quantized && (!is_integer(node.dtype(weights)) || size_of(node.dtype(weights)) != 1))
      node.invalid("W and R must be of type int8 or uint8, but one is {}", node.type(weights));
  if (node.has_input(3)) expect_shape(node, 3, "B", {count, Dim(2) * rows});
  layer.steps = shape[0];
  if (node.has_attr("clip")) {
    const double clip = node.attr_float("clip");
    if (!(clip >= 0)) node.invalid("attribute 'clip' is {}", clip);
    // As in all other runtimes; exporters write it.
    if (clip == 0)
      node.warn("attribute 'clip' is 0, which is taken as no clipping");
    else
      layer.clip = clip;
  }
  return layer;
}

/// The initial state [directions, batch, hidden] of the node; invalid if missing.
ValueId given_state(NodeContext& node, const Layer& layer, std::size_t i, const char* what) {
  if (!node.has_input(i)) return {};
  const Dim count(static_cast<std::int64_t>(layer.directions));
  expect_shape(node, i, what,
               layer.batch_first ? Shape{layer.batch, count, layer.hidden}
                                 : Shape{count, layer.batch, layer.hidden});
  const ValueId state = node.input(i, what);
  return layer.batch_first ? node.transpose(state, {1, 0, 2}) : state;
}

/// The initial state [batch, hidden] of direction `d`.
ValueId initial_state(NodeContext& node, const Layer& layer, ValueId given, std::int64_t d) {
  if (given.valid()) return element(node, given, 0, d);
  return node.expand(node.constant(layer.dtype, 0), {layer.batch, layer.hidden});
}

/// Parameter `i` of quantized weights for direction `d`: one value, or one per column.
ValueId weight_parameter(NodeContext& node, const Layer& layer, std::size_t i, const char* what,
                         std::int64_t d) {
  const ValueId value = node.input(i, what);
  Shape each{Dim(static_cast<std::int64_t>(layer.directions))};
  if (node.rank(value) != 1) each.push_back(Dim(layer.gates) * layer.hidden);
  expect_shape(node, i, what, each);
  return element(node, value, 0, d);
}

/// The input projection of all steps and directions is one matmul. It includes the recurrent bias
/// unless `separate_recurrent_bias`. read_direction reads quantized weights.
Operands read_operands(NodeContext& node, const Layer& layer, bool separate_recurrent_bias,
                       bool has_cell) {
  const Dim rows = Dim(layer.gates) * layer.hidden,
            count(static_cast<std::int64_t>(layer.directions)), all = count * rows;
  Operands result;
  result.h = given_state(node, layer, 5, "initial_h");
  if (node.has_input(4)) {
    expect_shape(node, 4, "sequence_lens", {layer.batch});
    result.lengths = node.input(4, "sequence_lens");
  }
  if (has_cell) {
    result.c = given_state(node, layer, 6, "initial_c");
    if (node.has_input(7)) {
      expect_shape(node, 7, "P", {count, Dim(3) * layer.hidden});
      result.peepholes = node.input(7, "P");
    }
  }
  if (layer.quantized) return result;
  result.recurrent = node.input(2, "R");
  const Shape shape = node.shape(layer.x);
  const ValueId flat = node.reshape(layer.x, {shape[0] * shape[1], shape[2]});
  const ValueId w = node.reshape(node.input(1, "W"), {all, shape[2]});
  ValueId product = node.add("MatMul", {flat, node.transpose(w, {1, 0})});
  if (node.has_input(3)) {
    const ValueId bias = node.input(3, "B");
    const ValueId input_bias = node.reshape(part(node, bias, 1, 0, rows), {all});
    const ValueId recurrent_bias = part(node, bias, 1, rows, rows);
    if (separate_recurrent_bias) result.recurrent_bias = recurrent_bias;
    product = node.add(
        "Add", {product, separate_recurrent_bias
                             ? input_bias
                             : node.add("Add", {input_bias, node.reshape(recurrent_bias, {all})})});
  }
  result.projected = node.reshape(product, {shape[0], shape[1], all});
  return result;
}

/// The operands of direction `d`.
Direction read_direction(NodeContext& node, const Layer& layer, const Operands& operands,
                         std::int64_t d) {
  const Dim rows = Dim(layer.gates) * layer.hidden;
  Direction result;
  if (operands.peepholes.valid()) result.peepholes = element(node, operands.peepholes, 0, d);
  if (!layer.quantized) {
    result.projected = part(node, operands.projected, 2, Dim(d) * rows, rows);
    result.recurrent = node.transpose(element(node, operands.recurrent, 0, d), {1, 0});
    if (operands.recurrent_bias.valid())
      result.recurrent_bias = element(node, operands.recurrent_bias, 0, d);
    return result;
  }
  const auto zero_point = [&](std::size_t i, const char* what) {
    return node.has_input(i) ? std::optional(weight_parameter(node, layer, i, what, d))
                             : std::nullopt;
  };
  const Shape shape = node.shape(layer.x);
  ValueId product = multiply_dynamic(node, node.reshape(layer.x, {shape[0] * shape[1], shape[2]}),
                                     element(node, node.input(1, "W"), 0, d),
                                     weight_parameter(node, layer, 8, "W_scale", d),
                                     zero_point(9, "W_zero_point"));
  result.recurrent = element(node, node.input(2, "R"), 0, d);
  result.scale = weight_parameter(node, layer, 10, "R_scale", d);
  result.zero_point = zero_point(11, "R_zero_point");
  if (node.has_input(3)) {
    const ValueId bias = element(node, node.input(3, "B"), 0, d);
    product = node.add("Add", {product, node.add("Add", {part(node, bias, 0, 0, rows),
                                                         part(node, bias, 0, rows, rows)})});
  }
  result.projected = node.reshape(product, {shape[0], shape[1], rows});
  return result;
}

/// Gate `i`: [.., gates * hidden] -> [.., hidden].
ValueId gate(NodeContext& node, const Layer& layer, ValueId gates, std::int64_t i) {
  return part(node, gates, node.rank(gates) - 1, Dim(i) * layer.hidden, layer.hidden);
}

ValueId clipped(NodeContext& node, const Layer& layer, ValueId x) {
  if (!layer.clip) return x;
  const ValueId most = node.constant(layer.dtype, *layer.clip),
                least = node.constant(layer.dtype, -*layer.clip);
  return node.add("Max", {node.add("Min", {x, most}), least});
}

ValueId activate(NodeContext& node, const Layer& layer, const Activation& f, ValueId x) {
  return apply(node, f, clipped(node, layer, x));
}

struct States {
  ValueId h, c;
};

/// h R.
ValueId recurrent_product(NodeContext& node, const Direction& direction, ValueId h) {
  if (!direction.scale.valid()) return node.add("MatMul", {h, direction.recurrent});
  return multiply_dynamic(node, h, direction.recurrent, direction.scale, direction.zero_point);
}

using Step = States (*)(NodeContext& node, const Layer& layer, const Direction& direction,
                        ValueId projected, const States& before);

/// H' = f(X W + H R + bias).
States rnn_step(NodeContext& node, const Layer& layer, const Direction& direction,
                ValueId projected, const States& before) {
  const ValueId sum = node.add("Add", {projected, recurrent_product(node, direction, before.h)});
  return {activate(node, layer, direction.activations[0], sum), {}};
}

/// Gates z, r, h; see the specification of GRU. With a separate recurrent bias, the reset gate is
/// applied after the matmul (linear_before_reset).
template <bool kLinearBeforeReset>
States gru_step(NodeContext& node, const Layer& layer, const Direction& direction,
                ValueId projected, const States& before) {
  const Dim two = Dim(2) * layer.hidden;
  const ValueId r = direction.recurrent;
  const auto &f = direction.activations[0], &g = direction.activations[1];
  const auto split = [&](ValueId value, const Dim& begin, const Dim& count) {
    return part(node, value, node.rank(value) - 1, begin, count);
  };
  ValueId product = node.add("MatMul", {before.h, kLinearBeforeReset ? r : split(r, 0, two)});
  if (direction.recurrent_bias.valid()) {
    const ValueId bias = direction.recurrent_bias;
    product = node.add("Add", {product, bias});
  }
  const ValueId gates =
      activate(node, layer, f, node.add("Add", {split(projected, 0, two), split(product, 0, two)}));
  const ValueId update = split(gates, 0, layer.hidden),
                reset = split(gates, layer.hidden, layer.hidden);
  const ValueId recurrent =
      kLinearBeforeReset
          ? node.add("Mul", {reset, split(product, two, layer.hidden)})
          : node.add("MatMul", {node.add("Mul", {reset, before.h}), split(r, two, layer.hidden)});
  const ValueId candidate =
      activate(node, layer, g, node.add("Add", {split(projected, two, layer.hidden), recurrent}));
  const ValueId fresh =
      node.add("Mul", {node.add("Sub", {node.constant(layer.dtype, 1), update}), candidate});
  return {node.add("Add", {fresh, node.add("Mul", {update, before.h})}), {}};
}

/// Gates i, o, f, c and peepholes i, o, f; see the specification of LSTM. With input_forget the
/// forget gate is 1 - i.
template <bool kInputForget>
States lstm_step(NodeContext& node, const Layer& layer, const Direction& direction,
                 ValueId projected, const States& before) {
  const auto &f = direction.activations[0], &g = direction.activations[1],
             &h = direction.activations[2];
  const ValueId gates = node.add("Add", {projected, recurrent_product(node, direction, before.h)});
  const auto with_peephole = [&](std::int64_t i, ValueId c) {
    const ValueId x = gate(node, layer, gates, i);
    if (!direction.peepholes.valid()) return x;
    const ValueId weight = part(node, direction.peepholes, 0, Dim(i) * layer.hidden, layer.hidden);
    return node.add("Add", {x, node.add("Mul", {weight, c})});
  };
  const ValueId input = activate(node, layer, f, with_peephole(0, before.c));
  const ValueId forget = kInputForget ? node.add("Sub", {node.constant(layer.dtype, 1), input})
                                      : activate(node, layer, f, with_peephole(2, before.c));
  const ValueId fresh = activate(node, layer, g, gate(node, layer, gates, 3));
  const ValueId c =
      node.add("Add", {node.add("Mul", {forget, before.c}), node.add("Mul", {input, fresh})});
  const ValueId output = activate(node, layer, f, with_peephole(1, c));
  return {node.add("Mul", {output, apply(node, h, c)}), c};
}

/// Runs one direction. Returns the outputs of all steps in the sequence's order, [steps, batch,
/// hidden]; `states` become the last ones.
ValueId run_direction(NodeContext& node, const Layer& layer, const Direction& direction,
                      ValueId lengths, bool backwards, Step step, States& states) {
  const bool has_cell = states.c.valid();
  std::vector<ValueId> initial{states.h};
  if (has_cell) initial.push_back(states.c);
  const auto result = iterate(
      node, layer.steps, initial, {backwards},
      [&](const Iteration& at) -> std::optional<IterationResult> {
        const States before{at.states[0], has_cell ? at.states[1] : ValueId{}};
        States next =
            step(node, layer, direction, at.element(direction.projected, 0, backwards), before);
        ValueId output = next.h;
        if (lengths.valid()) {
          // Steps after a sequence's end keep the states and output zero.
          const ValueId t =
              backwards
                  ? node.add("Sub", {node.folder().scalar_of(layer.steps - Dim(1)), at.number})
                  : at.number;
          const ValueId is_inside = node.add("Less", {t, lengths});
          const auto select = [&](ValueId inside, ValueId outside) {
            return node.add("Where", {is_inside, inside, outside});
          };
          output = select(next.h, node.constant(layer.dtype, 0));
          next.h = select(next.h, before.h);
          if (has_cell) next.c = select(next.c, before.c);
        }
        IterationResult after{{next.h}, {output}};
        if (has_cell) after.states.push_back(next.c);
        return after;
      });
  states.h = result->states[0];
  if (has_cell) states.c = result->states[1];
  return result->collected[0];
}

/// A kind of recurrent layer.
struct CellKind {
  const char* name;
  std::int64_t gates;
  std::vector<std::string> activations;
  Step step;
  bool has_cell = false, linear_before_reset = false, input_forget = false;
};

/// y [steps, directions, batch, hidden], the last h and c [directions, batch, hidden].
std::vector<ValueId> run_layer(NodeContext& node, const Layer& layer, const CellKind& cell,
                               const std::vector<Activation>& activations,
                               const Operands& operands) {
  const std::size_t functions = cell.activations.size();
  ValueId lengths;
  if (operands.lengths.valid())
    lengths = node.reshape(node.cast(operands.lengths, DType::kInt64), {layer.batch, Dim(1)});
  std::vector<ValueId> sequences, last_h, last_c;
  for (std::size_t d = 0; d < layer.directions; ++d) {
    const auto at = static_cast<std::int64_t>(d);
    Direction direction = read_direction(node, layer, operands, at);
    direction.activations.assign(
        activations.begin() + static_cast<std::ptrdiff_t>(d * functions),
        activations.begin() + static_cast<std::ptrdiff_t>((d + 1) * functions));
    States states{initial_state(node, layer, operands.h, at), {}};
    if (cell.has_cell) states.c = initial_state(node, layer, operands.c, at);
    const bool backwards = d == 1 || layer.starts_backwards;
    sequences.push_back(
        run_direction(node, layer, direction, lengths, backwards, cell.step, states));
    last_h.push_back(states.h);
    last_c.push_back(states.c);
  }
  const ir::TensorType state_type{layer.dtype, {layer.batch, layer.hidden}};
  std::vector<ValueId> results{stack(node, sequences, node.type(sequences[0]), 1),
                               stack(node, last_h, state_type, 0)};
  if (cell.has_cell) results.push_back(stack(node, last_c, state_type, 0));
  return results;
}

/// A feature of the layer that single-kernel layers do not support; empty if there is none.
std::string special(const Layer& layer, const CellKind& cell,
                    const std::vector<Activation>& activations, const Operands& operands) {
  for (std::size_t i = 0; i < activations.size(); ++i)
    if (const std::string& name = cell.activations[i % cell.activations.size()];
        activations[i].name != name)
      return fmt::format("its activation is {} in place of {}", activations[i].name, name);
  if (layer.clip) return fmt::format("it clips at {}", *layer.clip);
  if (operands.peepholes.valid()) return "it has peepholes";
  return cell.input_forget ? "its forget gate is made of its input gate" : "";
}

/// Imports the layer as a single Recurrent node with run_layer's graph as its body.
std::vector<ValueId> as_one(NodeContext& node, const Layer& layer, const CellKind& cell,
                            const std::vector<Activation>& activations, Operands operands) {
  const std::string direction = layer.directions == 2    ? "bidirectional"
                                : layer.starts_backwards ? "reverse"
                                                         : "forward";
  ir::Attrs attrs{{"cell", std::string(cell.name)},
                  {"direction", direction},
                  {"linear_before_reset", static_cast<std::int64_t>(cell.linear_before_reset)},
                  {"special", special(layer, cell, activations, operands)}};
  std::vector<ValueId> inputs, placeholders;
  const auto take = [&](ValueId& operand) {
    inputs.push_back(operand);
    operand = node.builder().placeholder(node.type(operand));
    placeholders.push_back(operand);
  };
  take(operands.projected);
  take(operands.recurrent);
  for (const auto& [flag, operand] : {std::pair("bias", &operands.recurrent_bias),
                                      {"initial_h", &operands.h},
                                      {"initial_c", &operands.c},
                                      {"lengths", &operands.lengths}}) {
    attrs.set(flag, static_cast<std::int64_t>(operand->valid()));
    if (operand->valid()) take(*operand);
  }
  const std::vector<ValueId> results = run_layer(node, layer, cell, activations, operands);
  ExtractedBody extracted = extract_body(node.builder(), placeholders, results);
  // Only peepholes are captured: they come last, and the node is marked as special.
  inputs.insert(inputs.end(), extracted.captured.begin(), extracted.captured.end());
  return node.builder().add_multi("Recurrent", inputs, attrs, std::move(extracted.body));
}

void import_layer(NodeContext& node, const CellKind& cell, bool quantized = false) {
  const Layer layer = read_layer(node, cell.gates, quantized);
  const auto activations = read_activations(node, cell.activations, layer.directions);
  const Operands operands = read_operands(node, layer, cell.linear_before_reset, cell.has_cell);
  const std::vector<ValueId> results = quantized
                                           ? run_layer(node, layer, cell, activations, operands)
                                           : as_one(node, layer, cell, activations, operands);
  if (node.output_is_used(0))
    node.output(0, layer.batch_first ? node.transpose(results[0], {2, 0, 1, 3}) : results[0]);
  for (std::size_t i = 1; i < results.size(); ++i)
    node.output(i, layer.batch_first ? node.transpose(results[i], {1, 0, 2}) : results[i]);
}

void rnn(NodeContext& node) { import_layer(node, {"RNN", 1, {"Tanh"}, rnn_step}); }

void gru(NodeContext& node) {
  CellKind cell{"GRU", 3, {"Sigmoid", "Tanh"}, gru_step<false>};
  cell.linear_before_reset = node.attr_int("linear_before_reset", 0) != 0;
  if (cell.linear_before_reset) cell.step = gru_step<true>;
  import_layer(node, cell);
}

void import_lstm(NodeContext& node, bool quantized) {
  CellKind cell{"LSTM", 4, {"Sigmoid", "Tanh", "Tanh"}, lstm_step<false>, true};
  cell.input_forget = node.attr_int("input_forget", 0) != 0;
  if (cell.input_forget) cell.step = lstm_step<true>;
  import_layer(node, cell, quantized);
}

void lstm(NodeContext& node) { import_lstm(node, false); }

/// Quantizes all steps of the input together, and each step's states of all samples together.
void dynamic_quantize_lstm(NodeContext& node) { import_lstm(node, true); }

}  // namespace

const OpRows kRecurrentOps = {
    {"RNN", 1, rnn,
     "activation_alpha activation_beta activations clip direction hidden_size layout:14- "
     "output_sequence:-6"},
    {"GRU", 3, gru,
     "activation_alpha activation_beta activations clip direction hidden_size layout:14- "
     "linear_before_reset output_sequence:-6"},
    {"LSTM", 1, lstm,
     "activation_alpha activation_beta activations clip direction hidden_size input_forget "
     "layout:14- output_sequence:-6"},
    {"DynamicQuantizeLSTM", 1, dynamic_quantize_lstm,
     "activation_alpha activation_beta activations clip direction hidden_size input_forget",
     "com.microsoft"},
};

}  // namespace sinter::frontend
