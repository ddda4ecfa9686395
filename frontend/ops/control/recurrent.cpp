// RNN, GRU and LSTM: loops over a sequence, unrolled where it is short.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/control/while_body.h"
#include "frontend/ops/products.h"
#include "frontend/ops/table/input_names.h"
#include "frontend/ops/table/op_table.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

/// An activation by its ONNX name, with its parameters.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

struct ActivationRow {
  std::string_view name;
  int parameters;  // 1: alpha, 2: alpha and beta
  double alpha, beta;
};

// Names and defaults of the specification of RNN.
constexpr ActivationRow kActivations[] = {
    {"Relu", 0, 0, 0},         {"Tanh", 0, 0, 0},
    {"Sigmoid", 0, 0, 0},      {"Softsign", 0, 0, 0},
    {"Softplus", 0, 0, 0},     {"Affine", 2, 1, 0},
    {"LeakyRelu", 1, 0.01, 0}, {"ThresholdedRelu", 1, 1, 0},
    {"ScaledTanh", 2, 1, 1},   {"HardSigmoid", 2, 0.2, 0.5},
    {"Elu", 1, 1, 0},
};

/// Activations of all directions in order. alpha and beta are lists without gaps: each activation
/// takes as many as it has, while there are any.
std::vector<Activation> read_activations(NodeContext& node, std::vector<std::string> fallback,
                                         std::size_t directions) {
  std::vector<std::string> names;
  for (std::size_t d = 0; d < directions; ++d)
    names.insert(names.end(), fallback.begin(), fallback.end());
  if (auto given = node.attr_strings("activations")) {
    if (given->size() != names.size())
      node.invalid("attribute 'activations' is [{}]; it must have {} names",
                   fmt::join(*given, ", "), names.size());
    names = std::move(*given);
  }
  const auto alphas = node.attr_floats("activation_alpha").value_or(std::vector<double>());
  const auto betas = node.attr_floats("activation_beta").value_or(std::vector<double>());
  std::size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> activations;
  for (const std::string& name : names) {
    const auto* row = std::find_if(
        std::begin(kActivations), std::end(kActivations),
        // "tanh" and "TanH" are in models as well.
        [&](const ActivationRow& candidate) { return same_name(candidate.name, name); });
    if (row == std::end(kActivations)) node.unsupported("activation '{}' is not known", name);
    Activation activation{std::string(row->name), row->alpha, row->beta};
    if (row->parameters >= 1 && next_alpha < alphas.size()) activation.alpha = alphas[next_alpha++];
    if (row->parameters >= 2 && next_beta < betas.size()) activation.beta = betas[next_beta++];
    activations.push_back(activation);
  }
  return activations;
}

ValueId apply(NodeContext& node, const Activation& activation, ValueId x) {
  const std::string& name = activation.name;
  const DType dtype = node.dtype(x);
  const auto number = [&](double value) { return node.constant(dtype, value); };
  const auto affine = [&](ValueId value) {
    return node.add("Add",
                    {node.add("Mul", {value, number(activation.alpha)}), number(activation.beta)});
  };
  if (name == "Softsign")
    return node.add("Div", {x, node.add("Add", {number(1), node.add("Abs", {x})})});
  if (name == "Softplus")  // max(x, 0) + log(1 + exp(-|x|)), which does not overflow
    return node.add(
        "Add",
        {node.add("Relu", {x}),
         node.add(
             "Log",
             {node.add("Add",
                       {number(1), node.add("Exp", {node.add("Neg", {node.add("Abs", {x})})})})})});
  if (name == "Affine") return affine(x);
  if (name == "HardSigmoid")
    return node.add("Max", {node.add("Min", {affine(x), number(1)}), number(0)});
  if (name == "ScaledTanh")
    return node.add("Mul", {number(activation.alpha),
                            node.add("Tanh", {node.add("Mul", {number(activation.beta), x})})});
  if (name == "LeakyRelu" || name == "Elu") {
    const ValueId below = name == "Elu" ? node.add("Sub", {node.add("Exp", {x}), number(1)}) : x;
    return node.add("Where", {node.add("Less", {x, number(0)}),
                              node.add("Mul", {number(activation.alpha), below}), x});
  }
  if (name == "ThresholdedRelu")
    return node.add("Where", {node.add("Greater", {x, number(activation.alpha)}), x, number(0)});
  return node.add(name, {x});
}

/// One recurrent node: its sizes and the inputs that all directions share.
struct Layer {
  std::int64_t gates = 0;
  Dim steps, batch, hidden;
  DType dtype = DType::kFloat32;
  std::size_t directions = 1;
  bool starts_backwards = false;
  bool batch_first = false;  // layout 1
  bool quantized = false;    // weights of 8 bits, whose left operands are quantized as they come
  std::optional<double> clip;
  ValueId x;        // [steps, batch, inputs]
  ValueId lengths;  // [batch, 1], or invalid
};

/// One direction of it.
struct Direction {
  ValueId projected;  // [steps, batch, gates * hidden]: the input's part, bias included
  ValueId recurrent;  // [hidden, gates * hidden]
  ValueId scale;      // of `recurrent` if it is quantized: one value, or one for each column
  std::optional<ValueId> zero_point;
  ValueId recurrent_bias;  // [gates * hidden], or invalid: part of `projected`
  ValueId peepholes;       // [3 * hidden], or invalid
  ValueId h, c;            // states: [batch, hidden]; c of an LSTM only
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
    // Every other runtime takes it so, and exporters write it.
    if (clip == 0)
      node.warn("attribute 'clip' is 0, which is taken as no clipping");
    else
      layer.clip = clip;
  }
  if (node.has_input(4)) {
    expect_shape(node, 4, "sequence_lens", {layer.batch});
    layer.lengths = node.reshape(node.cast(node.input(4, "sequence_lens"), DType::kInt64),
                                 {layer.batch, Dim(1)});
  }
  return layer;
}

/// State `i` of direction `d`: [batch, hidden], zero if the node does not give it.
ValueId initial_state(NodeContext& node, const Layer& layer, std::size_t i, const char* what,
                      std::size_t d) {
  if (!node.has_input(i))
    return node.expand(node.constant(layer.dtype, 0), {layer.batch, layer.hidden});
  const Dim count(static_cast<std::int64_t>(layer.directions));
  expect_shape(node, i, what,
               layer.batch_first ? Shape{layer.batch, count, layer.hidden}
                                 : Shape{count, layer.batch, layer.hidden});
  return element(node, node.input(i, what), layer.batch_first ? 1 : 0,
                 static_cast<std::int64_t>(d));
}

/// Parameter `i` of quantized weights: one value for a direction, or one for each column.
ValueId weight_parameter(NodeContext& node, const Layer& layer, std::size_t i, const char* what,
                         std::int64_t d) {
  const ValueId value = node.input(i, what);
  Shape each{Dim(static_cast<std::int64_t>(layer.directions))};
  if (node.rank(value) != 1) each.push_back(Dim(layer.gates) * layer.hidden);
  expect_shape(node, i, what, each);
  return element(node, value, 0, d);
}

/// Weights and states of direction `d`. The input's part of all steps is one product. The recurrent
/// bias joins it unless `separate_recurrent_bias`.
Direction read_direction(NodeContext& node, const Layer& layer, std::size_t d,
                         bool separate_recurrent_bias) {
  const auto at = static_cast<std::int64_t>(d);
  const Dim rows = Dim(layer.gates) * layer.hidden;
  Direction result;
  ValueId w = element(node, node.input(1, "W"), 0, at);
  result.recurrent = element(node, node.input(2, "R"), 0, at);
  const Shape shape = node.shape(layer.x);
  const ValueId flat = node.reshape(layer.x, {shape[0] * shape[1], shape[2]});
  ValueId product;
  if (layer.quantized) {
    const auto zero_point = [&](std::size_t i, const char* what) {
      return node.has_input(i) ? std::optional(weight_parameter(node, layer, i, what, at))
                               : std::nullopt;
    };
    product = multiply_dynamic(node, flat, w, weight_parameter(node, layer, 8, "W_scale", at),
                               zero_point(9, "W_zero_point"));
    result.scale = weight_parameter(node, layer, 10, "R_scale", at);
    result.zero_point = zero_point(11, "R_zero_point");
  } else {
    result.recurrent = node.transpose(result.recurrent, {1, 0});
    product = node.add("MatMul", {flat, node.transpose(w, {1, 0})});
  }
  if (node.has_input(3)) {
    const ValueId bias = element(node, node.input(3, "B"), 0, at);
    const ValueId input_bias = part(node, bias, 0, 0, rows);
    const ValueId recurrent_bias = part(node, bias, 0, rows, rows);
    if (separate_recurrent_bias) result.recurrent_bias = recurrent_bias;
    product = node.add(
        "Add", {product, separate_recurrent_bias ? input_bias
                                                 : node.add("Add", {input_bias, recurrent_bias})});
  }
  result.projected = node.reshape(product, {shape[0], shape[1], rows});
  result.h = initial_state(node, layer, 5, "initial_h", d);
  return result;
}

/// Gate `i` of `gates`: [.., gates * hidden] -> [.., hidden].
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

/// Gates z, r, h; see the specification of GRU. With a recurrent bias of its own the reset gate is
/// applied after the product (linear_before_reset).
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

/// Runs one direction; its outputs of all steps in the sequence's order, [steps, batch, hidden],
/// and the last states.
ValueId run_direction(NodeContext& node, const Layer& layer, Direction& direction, bool backwards,
                      Step step, States& states) {
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
        if (layer.lengths.valid()) {
          // Steps behind a sequence's end change nothing, and their output is zero.
          const ValueId t =
              backwards
                  ? node.add("Sub", {node.folder().scalar_of(layer.steps - Dim(1)), at.number})
                  : at.number;
          const ValueId is_inside = node.add("Less", {t, layer.lengths});
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

void import_layer(NodeContext& node, const Layer& layer, std::vector<std::string> activations,
                  Step step, bool separate_recurrent_bias, bool has_cell) {
  const std::size_t functions = activations.size();
  const auto all = read_activations(node, std::move(activations), layer.directions);
  const Dim count(static_cast<std::int64_t>(layer.directions));
  std::vector<ValueId> sequences, last_h, last_c;
  const ir::TensorType state_type{layer.dtype, {layer.batch, layer.hidden}};
  for (std::size_t d = 0; d < layer.directions; ++d) {
    Direction direction = read_direction(node, layer, d, separate_recurrent_bias);
    direction.activations.assign(all.begin() + static_cast<std::ptrdiff_t>(d * functions),
                                 all.begin() + static_cast<std::ptrdiff_t>((d + 1) * functions));
    States states{direction.h, {}};
    if (has_cell) {
      states.c = initial_state(node, layer, 6, "initial_c", d);
      if (node.has_input(7)) {
        expect_shape(node, 7, "P", {count, Dim(3) * layer.hidden});
        direction.peepholes = element(node, node.input(7, "P"), 0, static_cast<std::int64_t>(d));
      }
    }
    const bool backwards = d == 1 || layer.starts_backwards;
    sequences.push_back(run_direction(node, layer, direction, backwards, step, states));
    last_h.push_back(states.h);
    last_c.push_back(states.c);
  }
  const std::int64_t direction_axis = layer.batch_first ? 1 : 0;
  if (node.output_is_used(0)) {
    const ir::TensorType type = node.type(sequences[0]);  // [steps, batch, hidden]
    const ValueId y = stack(node, sequences, type, 1);
    node.output(0, layer.batch_first ? node.transpose(y, {2, 0, 1, 3}) : y);
  }
  node.output(1, stack(node, last_h, state_type, direction_axis));
  if (has_cell) node.output(2, stack(node, last_c, state_type, direction_axis));
}

void rnn(NodeContext& node) {
  import_layer(node, read_layer(node, 1), {"Tanh"}, rnn_step, false, false);
}

void gru(NodeContext& node) {
  const bool linear_before_reset = node.attr_int("linear_before_reset", 0) != 0;
  import_layer(node, read_layer(node, 3), {"Sigmoid", "Tanh"},
               linear_before_reset ? gru_step<true> : gru_step<false>, linear_before_reset, false);
}

void import_lstm(NodeContext& node, bool quantized) {
  const bool input_forget = node.attr_int("input_forget", 0) != 0;
  import_layer(node, read_layer(node, 4, quantized), {"Sigmoid", "Tanh", "Tanh"},
               input_forget ? lstm_step<true> : lstm_step<false>, false, true);
}

void lstm(NodeContext& node) { import_lstm(node, false); }

/// All steps of the input are quantized together, and the state of all samples in each step.
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
