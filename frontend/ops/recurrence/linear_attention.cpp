// SPDX-License-Identifier: Apache-2.0
// LinearAttention of ONNX and com.microsoft, and GatedDeltaNet: layers with a state for each head.
#include <algorithm>

#include "frontend/ops/attention/attention_core.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/recurrence/recurrence.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

/// [.., n, ..] as its `count` elements from `begin` on along the tokens' axis.
ValueId tokens_of(NodeContext& node, ValueId x, const Dim& begin, const Dim& count) {
  return x.valid() ? part(node, x, 1, begin, count) : x;
}

Recurrence part_of(NodeContext& node, const Recurrence& whole, const Dim& begin, const Dim& count,
                   ValueId state) {
  Recurrence result = whole;
  for (ValueId* operand : {&result.query, &result.key, &result.value, &result.decay, &result.beta})
    *operand = tokens_of(node, *operand, begin, count);
  result.state = state;
  return result;
}

/// The layer with all states of a window. As many tokens as the window is long, which change
/// nothing, come first, so that there is a state for each slot.
RecurrenceResults add_windowed(NodeContext& node, const Recurrence& layer, std::int64_t window) {
  const Dim length = node.shape(layer.key)[1];
  Recurrence longer = layer;
  for (ValueId* operand : {&longer.query, &longer.key, &longer.value, &longer.decay, &longer.beta})
    if (operand->valid()) *operand = behind_zeros(node, *operand, 1, window);
  RecurrenceResults now = add_recurrence(node, part_of(node, longer, Dim(0), length, layer.state));
  std::vector<ValueId> outs{now.out};
  const ValueId states = stack_slots(node, window, length, [&](std::int64_t j) {
    now = add_recurrence(node, part_of(node, longer, length + Dim(j), Dim(1), now.state));
    outs.push_back(now.out);
    return now.state;
  });
  return {part(node, node.concat(outs, 1), 1, Dim(window), length), states};
}

/// A gate [batch, length, heads], or [batch, length, heads * key_size] by channel.
ValueId read_decay(NodeContext& node, std::int64_t heads, const Dim& key_size) {
  const ValueId decay = node.input(4, "decay");
  if (node.rank(decay) == 3 && node.shape(decay)[2] == Dim(heads)) return decay;
  const ValueId by_channel = by_head(node, decay, heads);
  if (node.shape(by_channel)[3] != key_size)
    node.invalid("decay {} is neither by head nor by channel of {} keys of {}", node.type(decay),
                 heads, key_size);
  return by_channel;
}

/// A rate [batch, length, heads], or one for all heads.
ValueId read_beta(NodeContext& node, std::int64_t heads) {
  const ValueId beta = node.input(5, "beta");
  Shape shape = node.shape(beta);
  if (shape.size() == 3) shape[2] = Dim(heads);
  check_broadcasts(node, beta, "beta", shape, {false, false, true});
  return node.expand(beta, shape);
}

void add_layer(NodeContext& node, bool has_more_heads, std::int64_t window) {
  // ignores 'chunk_size', which affects only the algorithm
  const std::int64_t q_heads = node.attr_int("q_num_heads"), heads = node.attr_int("kv_num_heads");
  const UpdateRule rule = read_update_rule(node);
  const bool divides = heads > 0 && q_heads > 0 &&
                       (q_heads % heads == 0 || (has_more_heads && heads % q_heads == 0));
  if (!divides) node.invalid("{} heads of queries cannot share {} of keys", q_heads, heads);
  Recurrence layer;
  layer.query = by_head(node, node.input(0, "query"), q_heads);
  const Dim key_size = node.shape(layer.query)[3];
  layer.scale = read_scale(node, key_size);
  const ValueId key = node.input(1, "key");
  // Keys may be fewer than values: heads of states share them.
  std::int64_t key_heads = heads;
  if (has_more_heads && node.rank(key) == 3)
    if (const auto count = ir::divide_exactly(node.shape(key)[2], key_size);
        count && count->is_constant())
      key_heads = count->value();
  layer.key = by_head(node, key, key_heads);
  layer.value = by_head(node, node.input(2, "value"), heads);
  if (rule.is_gated) layer.decay = read_decay(node, heads, key_size);
  if (rule.is_delta) layer.beta = read_beta(node, heads);
  const DType dtype = node.dtype(layer.query);
  DType kept = dtype;
  if (node.has_input(3)) {
    layer.state = node.input(3, "past_state");
    kept = node.dtype(layer.state);
    if (window > 0) layer.state = last_slot(node, layer.state);
  }
  const RecurrenceResults results =
      window > 0 ? add_windowed(node, layer, window) : add_recurrence(node, layer);
  const Shape shape = node.shape(results.out);
  node.output(0, node.reshape(results.out, {shape[0], shape[1], shape[2] * shape[3]}));
  node.output(1, node.cast(results.state, kept));
}

void linear_attention(NodeContext& node) { add_layer(node, false, 0); }
void microsoft_linear_attention(NodeContext& node) { add_layer(node, true, read_window(node)); }

// ---- GatedDeltaNet

/// Rows of unit length.
ValueId unit_rows(NodeContext& node, ValueId x) {
  constexpr double kEpsilon = 1e-12;
  const ValueId wide = node.cast(x, kGateType);
  const ValueId squares =
      node.add("ReduceSumSquare", {wide}, {{"axes", Ints{3}}, {"keepdims", std::int64_t{1}}});
  const ValueId factor =
      node.add("Rsqrt", {node.add("Add", {squares, node.constant(kGateType, kEpsilon)})});
  return node.cast(node.add("Mul", {wide, factor}), node.dtype(x));
}

/// Input `i`, a parameter [heads], or [heads, size] or [heads * size], as [heads] or [heads, size].
ValueId parameter(NodeContext& node, std::size_t i, const char* what, std::int64_t heads,
                  const Dim& size, bool by_channel) {
  ValueId value = node.cast(node.input(i, what), kGateType);
  if (node.rank(value) == 1 && node.shape(value)[0] == Dim(heads))
    return by_channel ? node.reshape(value, {Dim(heads), Dim(1)}) : value;
  if (!by_channel || (node.rank(value) == 1 && node.shape(value)[0] != Dim(heads) * size))
    node.invalid("{} {} does not fit {} heads", what, node.type(value), heads);
  value = node.reshape(value, {Dim(heads), size});
  return value;
}

ValueId gate_of(NodeContext& node, ValueId decay, std::int64_t heads, const Dim& key_size) {
  const std::string activation = node.attr_string("gate_activation", "none");
  if (activation == "none") return decay;
  const bool is_softplus = activation == "softplus" || activation == "qwen";
  if (!is_softplus && activation != "sigmoid" && activation != "kda")
    node.invalid("attribute 'gate_activation' has the unknown value '" + activation + "'");
  const bool by_channel = node.rank(decay) == 4;
  const auto of = [&](std::size_t i, const char* what) {
    return parameter(node, i, what, heads, key_size, by_channel);
  };
  const ValueId rate = node.add("Exp", {of(7, "a_log")});
  const ValueId raw = node.add("Add", {node.cast(decay, kGateType), of(8, "dt_bias")});
  if (is_softplus) return node.add("Neg", {node.add("Mul", {rate, node.add("Softplus", {raw})})});
  const double bound = node.attr_float("gate_lower_bound", -5.0);
  return node.add("Mul", {node.add("Sigmoid", {node.add("Mul", {rate, raw})}),
                          node.constant(kGateType, bound)});
}

void gated_delta_net(NodeContext& node) {
  const UpdateRule rule = read_update_rule(node);
  if (node.attr_int("state_update_capacity", 0) != 0)
    node.unsupported("it captures its updates (state_update_capacity): only states are kept");
  const ValueId state = node.has_input(6) ? node.input(6, "initial_state") : ValueId{};
  if (state.valid() && node.rank(state) != 4)
    node.invalid("initial_state {} is not [batch, heads, value_size, key_size]", node.type(state));
  const ValueId query = node.input(0, "query");
  const bool is_packed = !node.has_input(1) && !node.has_input(2);
  const bool is_flat = node.rank(query) == (is_packed ? 2 : 3);
  const bool is_ragged = node.has_input(3);
  if (is_ragged && (!is_flat || !state.valid()))
    node.invalid("cu_seqlens needs tokens end to end and an initial_state");
  if (!state.valid() && (is_flat || is_packed))
    node.invalid("initial_state says how many sequences there are, and is absent");
  // Tokens of all sequences lie behind each other: [batch * length, ..].
  const Dim batch = is_ragged ? Dim(1) : is_flat ? node.shape(state)[0] : node.shape(query)[0];
  const auto lengths = is_flat ? ir::divide_exactly(node.shape(query)[0], batch)
                               : std::optional(node.shape(query)[1]);
  if (!lengths)
    node.unsupported(
        "{} tokens are not known to be whole sequences of equal length of a batch of {}",
        node.shape(query)[0], batch);
  const auto by_token = [&](ValueId x) {
    Shape shape = node.shape(x);
    if (is_flat)
      shape.erase(shape.begin());
    else
      shape.erase(shape.begin(), shape.begin() + 2);
    shape.insert(shape.begin(), {batch, *lengths});
    return node.reshape(x, shape);
  };
  Recurrence layer;
  if (is_packed) {
    const Shape of = node.shape(state);
    const ValueId all = by_token(query);
    const auto rest = ir::divide_exactly(node.shape(all)[2] - of[1] * of[2], Dim(2) * of[3]);
    if (!rest) node.invalid("{} is not packed queries, keys and values", node.type(query));
    const Dim keys = *rest * of[3];
    const auto piece = [&](const Dim& begin, const Dim& heads, const Dim& size) {
      return node.reshape(part(node, all, 2, begin, heads * size), {batch, *lengths, heads, size});
    };
    layer.query = piece(Dim(0), *rest, of[3]);
    layer.key = piece(keys, *rest, of[3]);
    layer.value = piece(keys * Dim(2), of[1], of[2]);
  } else {
    layer.query = by_token(query);
    layer.key = by_token(node.input(1, "key"));
    layer.value = by_token(node.input(2, "value"));
  }
  if (node.rank(layer.query) != 4 || node.rank(layer.value) != 4)
    node.invalid("query {} has neither 3 nor 4 dimensions", node.type(query));
  const Dim key_size = node.shape(layer.query)[3], heads = node.shape(layer.value)[2];
  if (!heads.is_constant()) node.unsupported("the number of its heads is symbolic: fix it");
  if (node.attr_int("qk_l2_norm", 0) != 0) {
    layer.query = unit_rows(node, layer.query);
    layer.key = unit_rows(node, layer.key);
  }
  layer.scale = read_scale(node, key_size);
  if (rule.is_gated)
    layer.decay = gate_of(node, by_token(node.input(4, "decay")), heads.value(), key_size);
  if (rule.is_delta) {
    layer.beta = by_token(node.input(5, "beta"));
    const std::string activation = node.attr_string("beta_activation", "none");
    if (activation == "sigmoid")
      layer.beta = node.add("Sigmoid", {node.cast(layer.beta, kGateType)});
    else if (activation != "none")
      node.invalid("attribute 'beta_activation' has the unknown value '" + activation + "'");
  }
  if (state.valid()) layer.state = node.transpose(state, {0, 1, 3, 2});
  if (is_ragged) {
    layer.starts = node.input(3, "cu_seqlens");
    check_shape(node, layer.starts, "cu_seqlens", {node.shape(state)[0] + Dim(1)});
  }
  const RecurrenceResults results = add_recurrence(node, layer);
  Shape shape = node.shape(results.out);
  if (is_flat) shape = {node.shape(query)[0], shape[2], shape[3]};
  node.output(0, node.reshape(results.out, shape));
  node.output(1, node.transpose(results.state, {0, 1, 3, 2}));
}

}  // namespace

const OpRows kLinearAttentionOps = {
    {"LinearAttention", 27, linear_attention,
     "chunk_size kv_num_heads q_num_heads scale update_rule"},
    {"LinearAttention", 1, microsoft_linear_attention,
     "chunk_size kv_num_heads q_num_heads scale state_window update_rule", kMicrosoft},
    {"GatedDeltaNet", 1, gated_delta_net,
     "beta_activation chunk_size gate_activation gate_lower_bound qk_l2_norm scale "
     "state_update_capacity update_rule",
     kMicrosoft},
};

}  // namespace sinter::frontend
