// SPDX-License-Identifier: Apache-2.0
// GroupQueryAttention of com.microsoft: its caches, and each sample's position in them. Source:
// ContribOperators.md of ONNX Runtime 1.3x.
#include "frontend/ops/microsoft/group_query.h"

#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/table/op_table.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

enum Input : std::size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kSeqlens,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSink,
  kQueryNorm = 14,
  kQuerySeqlens = 16,
};

void refuse_what_is_not_supported(NodeContext& node) {
  if (node.attr_int("kv_cache_bit_width", 0) != 0)
    node.unsupported("attribute 'kv_cache_bit_width' is set; export with a cache of floats");
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (node.attr_string(name, "NONE") != "NONE")
      node.unsupported("attribute '{}' is set; export with a cache of floats", name);
  if (node.has_input(kQuerySeqlens))
    node.unsupported(
        "its queries are padded chunks (query_seqlens); run chunks without padding, and export "
        "without this input");
  if (node.has_input(kPastKey) != node.has_input(kPastValue))
    node.invalid("past_key and past_value must be given together");
}

/// past_key or past_value; must match the new rows in all dimensions but the length.
ValueId past_input(NodeContext& node, std::size_t i, const char* name, ValueId rows) {
  const ValueId past = node.input(i, name);
  const Shape shape = node.shape(past), wanted = node.shape(rows);
  if (shape.size() != 4)
    node.invalid("{} must be [batch, heads, length, size], but is {}", name, node.type(past));
  for (const std::size_t d : {0, 1, 3})
    if (!(shape[d] == wanted[d]))
      throw ir::DimMismatch(shape[d], wanted[d],
                            fmt::format("{} is {}, which does not fit new rows of {}", name,
                                        node.type(past), node.type(rows)));
  return past;
}

/// The tables of angles limit the number of tokens.
void limit_to_angles(NodeContext& node, std::size_t cos, const Shape& lengths) {
  const Shape table = node.shape(node.input(cos, "cos_cache"));
  if (table.empty()) return;
  const auto rows = ir::upper_bound(table[0], node.builder().ranges());
  for (const Dim& length : lengths)
    if (rows) node.limit(length, *rows);
}

/// total_sequence_length as a size; if it is data-dependent, caches grow by the new rows.
Dim total_length(NodeContext& node, std::size_t total, const Dim& past, const Dim& rows) {
  if (node.has_input(total))
    if (const auto known = node.folder().contents(node.input(total, "total_sequence_length"));
        known && known->size() == 1)
      return known->front();
  node.warn("its total_sequence_length depends on data: present is taken as past and the new rows");
  return past + rows;
}

}  // namespace

void read_grouped_heads(NodeContext& node, AttentionForm& form,
                        const std::function<ValueId(ValueId)>& batched) {
  const std::int64_t heads = node.attr_int("num_heads"), kv_heads = node.attr_int("kv_num_heads");
  const auto read = [&](std::size_t i, const char* name, std::int64_t count) {
    const ValueId value = node.input(i, name);
    return split_heads(node, batched ? batched(value) : value, count);
  };
  if (node.has_input(kKey) && node.has_input(kValue)) {
    form.q = read(kQuery, "query", heads);
    form.k = read(kKey, "key", kv_heads);
    form.v = read(kValue, "value", kv_heads);
    return;
  }
  const ValueId all = read(kQuery, "query", heads + 2 * kv_heads);
  form.q = part(node, all, 1, 0, heads);
  form.k = part(node, all, 1, heads, kv_heads);
  form.v = part(node, all, 1, heads + kv_heads, kv_heads);
}

void normalise_heads(NodeContext& node, AttentionForm& form, std::size_t query) {
  if (node.has_input(query) != node.has_input(query + 1))
    node.invalid("q_norm_weight and k_norm_weight must be given together");
  if (!node.has_input(query)) return;
  constexpr double kOnnxRuntimes = 1e-6;
  const double both = node.attr_float("qk_norm_epsilon", kOnnxRuntimes);
  const auto normalised = [&](ValueId x, std::size_t i, double epsilon) {
    return node.add("RmsNorm", {x, node.input(i, "q_norm_weight or k_norm_weight")},
                    {{"axis", std::int64_t{3}}, {"epsilon", epsilon}});
  };
  // Only GroupQueryAttention has those of each.
  const bool has_each = node.op_type() == "GroupQueryAttention";
  form.q = normalised(form.q, query, has_each ? node.attr_float("q_norm_epsilon", both) : both);
  form.k = normalised(form.k, query + 1, has_each ? node.attr_float("k_norm_epsilon", both) : both);
}

void turn_heads(NodeContext& node, AttentionForm& form, std::size_t cos_input, ValueId positions) {
  if (node.attr_int("do_rotary", 0) == 0) return;
  const ValueId cos = rows_at(node, node.input(cos_input, "cos_cache"), positions);
  const ValueId sin = rows_at(node, node.input(cos_input + 1, "sin_cache"), positions);
  const bool interleaved = node.attr_int("rotary_interleaved", 0) != 0;
  form.q = rotate(node, form.q, cos, sin, interleaved);
  form.k = rotate(node, form.k, cos, sin, interleaved);
}

Lengths lengths_after(NodeContext& node, const Term& given, const Dim& batch, const Dim& rows) {
  const Term after = given.cast(DType::kInt64).reshape({batch, Dim(1)});
  return {after, after - after.with("Min", size_of_dim(node, rows))};
}

Term places_of(NodeContext& node, const Lengths& lengths, const Dim& rows) {
  return lengths.before + iota(node, rows, 1, 2);
}

// ONNX Runtime makes present as long as the larger of past and total_sequence_length: a growing
// cache, or one buffer for all steps.
void attend_to_all(NodeContext& node, AttentionForm& form, const Lengths& lengths,
                   const Term& places, const CacheInputs& inputs, bool knows_positions) {
  const Shape rows = node.shape(form.k);
  const ValueId past_key = past_input(node, inputs.past_key, "past_key", form.k),
                past_value = past_input(node, inputs.past_key + 1, "past_value", form.v);
  const Dim past = node.shape(past_key)[2], total = total_length(node, inputs.total, past, rows[2]);
  // A buffer of known length must hold all tokens, and each token needs its angles.
  if (past.is_constant() && past.value() > 0) node.limit(total, past.value());
  if (node.has_input(inputs.cos) && !knows_positions)
    limit_to_angles(node, inputs.cos, {past, total});
  const Dim keys = ir::max(past, total, node.builder().ranges());
  form.k = put_rows(node, lengthened(node, past_key, keys), form.k, lengths.before.value());
  form.v = put_rows(node, lengthened(node, past_value, keys), form.v, lengths.before.value());
  const auto per_query = [&](const Term& x) { return x.reshape({rows[0], 1, x.shape()[1], 1}); };
  const Term key = iota(node, keys, 3, 4), place = per_query(places),
             end = per_query(lengths.after);
  const bool is_causal = node.op_type() != "GroupQueryAttention" || node.attr_int("causal", 1) != 0;
  // Padded queries also see only their sample's tokens.
  form.masks.push_back(key.with("Less", is_causal ? (place + 1).with("Min", end) : end).value());
  if (form.window > 0)
    form.masks.push_back(key.with("Greater", place - static_cast<double>(form.window)).value());
  form.window = 0;
}

namespace {

/// With attribute sliding_window_cache: how many of the last `tokens` a cache of `capacity` rows
/// holds. It evicts its rows beyond the window at once.
Term resident(const Term& tokens, const Dim& capacity, std::int64_t window) {
  NodeContext& node = tokens.node();
  const Term size = size_of_dim(node, capacity);
  const Term step = size_of_dim(node, capacity - Dim(window - 1));
  const Term more = (tokens - size).with("Max", 0);
  return tokens - step * ((more + step - 1) / step);
}

/// Caches of the last tokens, of any length that holds the window: oldest first, without
/// wraparound.
void attend_to_window(NodeContext& node, AttentionForm& form, const Lengths& lengths,
                      const Term& places) {
  if (node.attr_int("causal", 1) == 0 || form.window <= 0)
    node.invalid("attribute 'sliding_window_cache' needs causal attention and local_window_size");
  if (node.has_input(kBias))
    node.unsupported(
        "it has an attention_bias and a sliding_window_cache: export with one of them");
  const Shape rows = node.shape(form.k);
  const ValueId past_key = past_input(node, kPastKey, "past_key", form.k),
                past_value = past_input(node, kPastValue, "past_value", form.v);
  const Dim capacity = node.shape(past_key)[2], keys = capacity + rows[2];
  if (capacity.is_constant() && capacity.value() < form.window)
    node.invalid("past_key is {}, which does not hold a window of {}", node.type(past_key),
                 form.window);
  node.at_least(capacity, form.window);
  const Term held = resident(lengths.before, capacity, form.window),
             kept = resident(lengths.after, capacity, form.window);
  const ValueId all_keys = append_to_cache(node, past_key, form.k),
                all_values = append_to_cache(node, past_value, form.v);
  // Position in its sample of row r's token, among past and new rows.
  const Term row = iota(node, keys, 1, 2), size = size_of_dim(node, capacity);
  const Term is_new = row.with("GreaterOrEqual", size);
  const Term token = lengths.before + row - select(is_new, size, held);
  const auto per_key = [&](const Term& x) { return x.reshape({rows[0], 1, 1, keys}); };
  const Term place = places.reshape({rows[0], 1, rows[2], 1});
  // A single mask, because fused attention accepts only one.
  const Term is_seen = per_key(token).with("LessOrEqual", place);
  const Term is_near = per_key(token).with("Greater", place - static_cast<double>(form.window));
  const Term is_held = per_key(is_new.with("Or", row.with("Less", held)));
  form.masks.push_back(is_seen.with("And", is_near).with("And", is_held).value());
  form.window = 0;
  // Row i of present is a copy of the row with token i + after - kept.
  const Term wanted = iota(node, capacity, 1, 2) + (lengths.after - kept);
  const Term from =
      wanted - lengths.before + select(wanted.with("Less", lengths.before), held, size);
  const ValueId source = clamp(from, 0, size_of_dim(node, keys) - 1).value();
  form.k = all_keys;
  form.v = all_values;
  node.output(1, take_rows(node, all_keys, source));
  node.output(2, take_rows(node, all_values, source));
}

void attend_without_past(NodeContext& node, AttentionForm& form) {
  const Shape rows = node.shape(form.k);
  const Term last =
      Term(node, node.input(kSeqlens, "seqlens_k")).cast(DType::kInt64).reshape({rows[0], 1, 1, 1});
  form.masks.push_back(iota(node, rows[2], 3, 4).with("LessOrEqual", last).value());
  if (node.attr_int("causal", 1) != 0) form.causal_offset = 0;
}

void group_query_attention(NodeContext& node) {
  refuse_what_is_not_supported(node);
  AttentionForm form;
  read_grouped_heads(node, form);
  const Shape queries = node.shape(form.q);
  form.scale = read_scale(node, form.q);
  form.softcap = node.attr_float("softcap", 0);
  form.window = std::max<std::int64_t>(node.attr_int("local_window_size", -1), 0);
  if (form.window > 0 && node.attr_int("causal", 1) == 0)
    node.invalid("local_window_size needs causal attention");
  if (node.has_input(kSink))
    form.sink = node.input(kSink, "head_sink");
  else if (node.attr_int("smooth_softmax", 0) > 0)
    form.sink = node.expand(node.constant(node.dtype(form.q), 0), {queries[1]});
  normalise_heads(node, form, kQueryNorm);
  const bool is_windowed = node.attr_int("sliding_window_cache", 0) != 0;
  const auto turn = [&](ValueId places) {
    turn_heads(node, form, kCos,
               node.has_input(kPositions) ? node.input(kPositions, "position_ids") : places);
  };
  if (node.has_input(kPastKey)) {
    const Term after = Term(node, node.input(kSeqlens, "seqlens_k")).cast(DType::kInt64) + 1;
    const Lengths lengths = lengths_after(node, after, queries[0], queries[2]);
    const Term places = places_of(node, lengths, queries[2]);
    turn(places.value());
    if (is_windowed)
      attend_to_window(node, form, lengths, places);
    else
      attend_to_all(node, form, lengths, places, {kPastKey, kTotal, kCos},
                    node.has_input(kPositions));
  } else if (is_windowed) {
    node.invalid("attribute 'sliding_window_cache' needs past_key and past_value");
  } else {
    turn(positions_from(node, 0, queries[2]));
    attend_without_past(node, form);
  }
  if (node.has_input(kBias)) form.masks.push_back(node.input(kBias, "attention_bias"));
  const AttentionStages stages = attend(node, form);
  node.output(0, merge_heads(node, stages.y));
  if (!is_windowed) {
    node.output(1, form.k);
    node.output(2, form.v);
  }
  const std::int64_t shown = node.attr_int("qk_output", 0);
  if (shown == 1) node.output(3, stages.product);
  if (shown == 2) node.output(3, stages.weights);
}

}  // namespace

const OpRows kMicrosoftGroupQueryOps = {
    {"GroupQueryAttention", 1, group_query_attention,
     "causal do_rotary k_norm_epsilon k_quant_type kv_cache_bit_width kv_num_heads "
     "local_window_size num_heads q_norm_epsilon qk_norm_epsilon qk_output rotary_interleaved "
     "scale sliding_window_cache smooth_softmax "
     "softcap v_quant_type",
     kMicrosoft},
};

}  // namespace sinter::frontend
