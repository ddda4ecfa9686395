// SPDX-License-Identifier: Apache-2.0
// LinearAttention and CausalConvWithState: layers with a state that persists between runs.
#include <cmath>

#include "frontend/ops/attention/attention_core.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/control/while_body.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

/// Causal depthwise convolution; the state is the last k - 1 positions.
void causal_conv_with_state(NodeContext& node) {
  const ValueId x = node.input(0, "input"), weights = node.input(1, "weight");
  const Shape shape = node.shape(x);
  if (node.rank(x) != 3 || node.rank(weights) != 3 || node.shape(weights)[0] != shape[1] ||
      node.shape(weights)[1] != Dim(1) || !shape[1].is_constant())
    node.invalid("input {} and weight {} must be [batch, channels, length] and [channels, 1, k]",
                 node.type(x), node.type(weights));
  Windows w;
  w.kernel = kernel_of_weights(node, weights);
  w.strides = w.dilations = {1};
  w.pads_begin = w.pads_end = {Dim(0)};
  const std::int64_t kept = w.kernel[0] - 1;
  ValueId padded = x;
  if (kept > 0) {
    const Shape state{shape[0], shape[1], Dim(kept)};
    const ValueId past = node.has_input(3) ? node.input(3, "past_state")
                                           : node.expand(node.constant(node.dtype(x), 0), state);
    if (node.shape(past) != state)
      node.invalid("past_state is {}; it must be {}", node.type(past), state);
    padded = append_to_cache(node, past, x);
  }
  const ValueId bias = node.has_input(2) ? node.input(2, "bias") : ValueId{};
  const ValueId y = add_conv(node, padded, weights, bias, w, shape[1].value());
  const std::string activation = node.attr_string("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    node.invalid("attribute 'activation' has the unknown value '" + activation + "'");
  node.output(0, activation == "none" ? y : node.add("Silu", {y}));
  if (node.output_is_used(1)) node.output(1, part(node, padded, 2, shape[2], kept));
}

/// S' = decay * S + k (v - k S)..: see the specification of LinearAttention. Sequential steps in
/// float32.
void linear_attention(NodeContext& node) {
  // ignores 'chunk_size', which affects only the algorithm
  const ValueId query = node.input(0, "query");
  const std::int64_t q_heads = node.attr_int("q_num_heads"), heads = node.attr_int("kv_num_heads");
  const std::string rule = node.attr_string("update_rule", "gated_delta");
  const bool is_gated = rule == "gated" || rule == "gated_delta";
  const bool is_delta = rule == "delta" || rule == "gated_delta";
  if (!is_gated && !is_delta && rule != "linear")
    node.invalid("attribute 'update_rule' has the unknown value '" + rule + "'");
  if (heads < 1 || q_heads < 1 || q_heads % heads != 0)
    node.invalid("{} heads of queries cannot share {} of keys", q_heads, heads);
  constexpr DType kWide = DType::kFloat32;
  const auto wide = [&](std::size_t i, const char* what, std::int64_t count) {
    return by_head(node, node.cast(node.input(i, what), kWide), count);
  };
  const ValueId q = wide(0, "query", q_heads), k = wide(1, "key", heads),
                v = wide(2, "value", heads);
  const Shape shape = node.shape(k);
  const Dim batch = shape[0], key_size = shape[3], value_size = node.shape(v)[3];
  if (!key_size.is_constant()) node.unsupported("the size of its heads is symbolic: fix it");
  double scale = node.attr_float("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(key_size.value()));

  const Shape state_shape{batch, Dim(heads), key_size, value_size};
  ValueId state = node.has_input(3) ? node.cast(node.input(3, "past_state"), kWide)
                                    : node.expand(node.constant(kWide, 0), state_shape);
  if (node.shape(state) != state_shape)
    node.invalid("past_state is {}; it must be {}", node.type(state), state_shape);
  ValueId decay, beta;
  if (is_gated) decay = node.add("Exp", {wide(4, "decay", heads)});
  if (is_delta) {
    const ValueId rates = node.cast(node.input(5, "beta"), kWide);
    Shape spread = node.shape(rates);
    spread.emplace_back(1);
    beta = node.reshape(rates, spread);
  }
  const auto as_column = [&](ValueId value) {  // [batch, heads, size] -> [batch, heads, size, 1]
    Shape column = node.shape(value);
    column.emplace_back(1);
    return node.reshape(value, column);
  };
  const auto as_row = [&](ValueId value) {
    Shape row = node.shape(value);
    row.insert(row.end() - 1, Dim(1));
    return node.reshape(value, row);
  };
  const Dim group(q_heads / heads);
  const auto result = iterate(
      node, shape[1], {state}, {false},
      [&](const Iteration& iteration) -> std::optional<IterationResult> {
        const auto at = [&](ValueId value) { return iteration.element(value, 1, false); };
        ValueId now = iteration.states[0];
        const ValueId key = as_column(at(k));
        ValueId value = as_row(at(v));
        if (is_gated) now = node.add("Mul", {now, as_column(at(decay))});
        if (is_delta) {
          const ValueId held =
              node.add("ReduceSum", {node.add("Mul", {now, key})},
                       {{"axes", std::vector<std::int64_t>{2}}, {"keepdims", std::int64_t{1}}});
          value = node.add("Mul", {node.add("Sub", {value, held}), as_column(at(beta))});
        }
        now = node.add("Add", {now, node.add("Mul", {key, value})});
        const ValueId grouped = node.reshape(at(q), {batch, Dim(heads), group, key_size});
        const ValueId read = node.add("MatMul", {grouped, now});
        return IterationResult{{now}, {node.reshape(read, {batch, Dim(q_heads) * value_size})}};
      });
  const ValueId all = node.transpose(result->collected[0], {1, 0, 2});
  const DType dtype = node.dtype(query);
  node.output(0, node.cast(node.add("Mul", {all, node.constant(kWide, scale)}), dtype));
  node.output(1, node.cast(result->states[0],
                           node.has_input(3) ? node.dtype(node.input(3, "past_state")) : dtype));
}

}  // namespace

const OpRows kStateSpaceOps = {
    {"CausalConvWithState", 27, causal_conv_with_state, "activation"},
    {"LinearAttention", 27, linear_attention,
     "chunk_size kv_num_heads q_num_heads scale update_rule"},
};

}  // namespace sinter::frontend
