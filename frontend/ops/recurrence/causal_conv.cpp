// SPDX-License-Identifier: Apache-2.0
// Causal depthwise convolutions whose state is the last inputs, of ONNX and com.microsoft; and the
// gates in front of and behind LinearAttention.
#include "frontend/ops/attention/attention_core.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/recurrence/recurrence.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

/// x [batch, channels, length]. `dilation`: between the taps of the kernel.
void add_causal_conv(NodeContext& node, std::int64_t dilation, std::int64_t window,
                     bool is_channels_last) {
  const ValueId given = node.input(0, "input"), weights = node.input(1, "weight");
  // [batch, length, d..]: all d are channels.
  const Shape outer = node.shape(given);
  ValueId x = given;
  const auto first = [&](ValueId value) {
    Shape shape = node.shape(value);
    Dim channels(1);
    for (std::size_t d = 2; d < shape.size(); ++d) channels *= shape[d];
    return node.transpose(node.reshape(value, {shape[0], shape[1], channels}), {0, 2, 1});
  };
  const auto last = [&](ValueId value) {  // the inverse, with x's channels
    Shape shape = outer;
    shape[1] = node.shape(value)[2];
    return node.reshape(node.transpose(value, {0, 2, 1}), shape);
  };
  if (is_channels_last) {
    if (outer.size() < 3) node.invalid("input {} is not [batch, length, channels]", node.type(x));
    x = first(given);
  }
  const Shape shape = node.shape(x);
  if (node.rank(x) != 3 || node.rank(weights) != 3 || node.shape(weights)[0] != shape[1] ||
      node.shape(weights)[1] != Dim(1) || !shape[1].is_constant())
    node.invalid("input {} and weight {} must be [batch, channels, length] and [channels, 1, k]",
                 node.type(x), node.type(weights));
  Windows w;
  w.kernel = kernel_of_weights(node, weights);
  w.strides = {1};
  w.dilations = {dilation};
  w.pads_begin = w.pads_end = {Dim(0)};
  const std::int64_t kept = w.reach(0) - 1;
  const Shape state{shape[0], shape[1], Dim(kept)};
  ValueId padded = x;
  if (kept > 0) {
    ValueId past = node.has_input(3) ? node.input(3, "past_state")
                                     : node.expand(node.constant(node.dtype(x), 0), state);
    if (node.has_input(3) && window > 0) past = last_slot(node, past);
    if (node.has_input(3) && is_channels_last) past = first(past);
    if (node.shape(past) != state)
      node.invalid("past_state is {}; it must be {}", node.type(past), state);
    padded = append_to_cache(node, past, x);
  }
  const ValueId bias = node.has_input(2) ? node.input(2, "bias") : ValueId{};
  const ValueId y = activated(node, add_conv(node, padded, weights, bias, w, shape[1].value()));
  node.output(0, is_channels_last ? last(y) : y);
  if (!node.output_is_used(1)) return;
  const auto slot = [&](ValueId from, const Dim& begin) {
    const ValueId value = part(node, from, 2, begin, Dim(kept));
    return is_channels_last ? last(value) : value;
  };
  if (window == 0) return node.output(1, slot(padded, shape[2]));
  // Zeros in front, so that each slot has a place.
  const ValueId longer = behind_zeros(node, padded, 2, window);
  node.output(1, stack_slots(node, window, shape[2],
                             [&](std::int64_t j) { return slot(longer, shape[2] + Dim(j + 1)); }));
}

void causal_conv_with_state(NodeContext& node) { add_causal_conv(node, 1, 0, false); }

void microsoft_causal_conv_with_state(NodeContext& node) {
  if (const std::int64_t dims = node.attr_int("ndim", 1); dims != 1)
    node.unsupported("it is a convolution over {} dimensions; only one is supported", dims);
  for (const auto& [name, plain] :
       {std::pair("state_update_capacity", 0), std::pair("input_channel_offset", 0),
        std::pair("input_channels", 0), std::pair("state_length", 0),
        std::pair("state_channels_last", -1)})
    if (const std::int64_t given = node.attr_int(name, plain); given != plain)
      node.unsupported(
          "attribute '{}' is {}: only states of the inputs' layout are kept, of all "
          "channels",
          name, given);
  const std::int64_t dilation = node.attr_int("dilation", 1);
  if (dilation < 1) node.invalid("attribute 'dilation' is {}; it must be positive", dilation);
  add_causal_conv(node, dilation, read_window(node), node.attr_int("channels_last", 0) != 0);
}

// ---- Gates, computed in float32

ValueId over_heads(NodeContext& node, std::size_t i, const char* what, ValueId x) {
  const ValueId value = node.input(i, what);
  if (node.rank(x) == 0) node.invalid("input {} has no heads", node.type(x));
  check_shape(node, value, what, {node.shape(x).back()});
  return node.cast(value, kGateType);
}

void linear_attention_gate(NodeContext& node) {
  const ValueId a = node.input(0, "a");
  const ValueId raw = node.add("Add", {node.cast(a, kGateType), over_heads(node, 1, "dt_bias", a)});
  const ValueId decay =
      node.add("Mul", {node.add("Softplus", {raw}), over_heads(node, 2, "decay_scale", a)});
  node.output(0, node.cast(decay, node.dtype(a)));
  if (!node.output_is_used(1)) return;
  const ValueId b = node.input(3, "b");
  node.output(1, node.cast(node.add("Sigmoid", {node.cast(b, kGateType)}), node.dtype(a)));
}

void gated_rms_norm(NodeContext& node) {
  const ValueId x = node.input(0, "X"), scale = node.input(1, "scale"),
                gate = node.input(2, "gate");
  check_shape(node, gate, "gate", node.shape(x));
  const Shape shape = node.shape(x);
  if (node.rank(scale) != 1 || shape.empty())
    node.invalid("scale {} is not one number for each channel of a head", node.type(scale));
  const Dim channels = node.shape(scale)[0];
  const auto heads = ir::divide_exactly(shape.back(), channels);
  if (!heads)
    node.invalid("the last dimension of {} is not a multiple of scale's {}", node.type(x),
                 channels);
  const std::string activation = node.attr_string("activation", "silu");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid")
    node.invalid("attribute 'activation' has the unknown value '" + activation + "'");
  Shape split = shape;
  split.back() = *heads;
  split.push_back(channels);
  const auto wide = [&](ValueId value) { return node.reshape(node.cast(value, kGateType), split); };
  const ValueId normal =
      node.add("RmsNorm", {wide(x), node.cast(scale, kGateType)},
               {{"axis", std::ssize(split) - 1}, {"epsilon", node.attr_float("epsilon", 1e-6F)}});
  const ValueId factor = node.add(activation == "sigmoid" ? "Sigmoid" : "Silu", {wide(gate)});
  node.output(node.cast(node.reshape(node.add("Mul", {normal, factor}), shape), node.dtype(x)));
}

void gated_add(NodeContext& node) {
  const ValueId x = node.input(0, "X"), y = node.input(1, "Y");
  ValueId gate = node.input(2, "gate");
  if (node.has_input(3)) {
    const ValueId weight = node.input(3, "gate_weight");
    check_shape(node, weight, "gate_weight",
                {node.rank(gate) == 0 ? Dim(0) : node.shape(gate).back(), Dim(1)});
    const ValueId product = node.add("MatMul", {gate, weight});
    gate = node.cast(node.add("Sigmoid", {node.widened(product)}), node.dtype(x));
  }
  check_shape(node, y, "Y", node.shape(x));
  Shape rows = node.shape(x);
  if (rows.empty()) node.invalid("input {} has no rows", node.type(x));
  rows.back() = Dim(1);
  check_shape(node, gate, "gate", rows);
  node.output(node.add("Add", {x, node.add("Mul", {y, gate})}));
}

}  // namespace

const OpRows kStateSpaceOps = {
    {"CausalConvWithState", 27, causal_conv_with_state, "activation"},
    {"CausalConvWithState", 1, microsoft_causal_conv_with_state,
     "activation channels_last dilation input_channel_offset input_channels ndim "
     "state_channels_last state_length state_update_capacity state_window",
     kMicrosoft},
    {"LinearAttentionGate", 1, linear_attention_gate, "", kMicrosoft},
    {"GatedRMSNorm", 1, gated_rms_norm, "activation epsilon", kMicrosoft},
    {"GatedAdd", 1, gated_add, "", kMicrosoft},
    {"VarlenCausalConvWithState", 1, ragged_causal_conv,
     "activation delta_offset dilation group_size state_update_capacity", kMicrosoft},
};

}  // namespace sinter::frontend
