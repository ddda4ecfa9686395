// Grouped-query attention and rotary embeddings of com.microsoft. Source: ContribOperators.md of
// ONNX Runtime 1.2x.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "frontend/ops/attention_core.h"
#include "frontend/ops/checks.h"
#include "frontend/ops/op_table.h"
#include "frontend/ops/unroll.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::ValueId;

void refuse_attr(NodeContext& node, const char* name, std::int64_t plain) {
  if (const std::int64_t value = node.attr_int(name, plain); value != plain)
    node.unsupported(fmt::format("attribute '{}' is {}; export with {}", name, value, plain));
}

/// Grouped-query attention with a cache that grows: present = past and then the new keys. All
/// samples of a batch have the same past; seqlens_k hides padding at the end of each.
void group_query_attention(NodeContext& node) {
  refuse_attr(node, "sliding_window_cache", 0);
  refuse_attr(node, "kv_cache_bit_width", 0);
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (node.attr_string(name, "NONE") != "NONE")
      node.unsupported(fmt::format("attribute '{}' is set; export with a cache of floats", name));
  for (const std::size_t i : {14, 15})
    if (node.has_input(i))
      node.unsupported(
          "it normalises queries and keys itself (q_norm_weight); export with these "
          "normalisations as nodes");
  const std::int64_t heads = node.attr_int("num_heads"), kv_heads = node.attr_int("kv_num_heads");
  const ValueId query = node.input(0, "query");
  AttentionForm form;
  if (node.has_input(1) && node.has_input(2)) {
    form.q = split_heads(node, query, heads);
    form.k = split_heads(node, node.input(1, "key"), kv_heads);
    form.v = split_heads(node, node.input(2, "value"), kv_heads);
  } else {
    const ValueId all = split_heads(node, query, heads + 2 * kv_heads);
    form.q = part(node, all, 1, 0, heads);
    form.k = part(node, all, 1, heads, kv_heads);
    form.v = part(node, all, 1, heads + kv_heads, kv_heads);
  }
  const Dim batch = node.shape(form.q)[0], length = node.shape(form.q)[2];
  Dim past_length = 0;
  if (node.has_input(3) && node.has_input(4)) {
    const ValueId past = node.input(3, "past_key");
    if (node.rank(past) != 4)
      node.invalid("past_key must be [batch, heads, length, size], but is " +
                   ir::to_string(node.type(past)));
    past_length = node.shape(past)[2];
  }
  if (node.attr_int("do_rotary", 0) != 0) {
    const ValueId positions = node.has_input(9) ? node.input(9, "position_ids")
                                                : positions_from(node, past_length, length);
    const ValueId cos = rows_at(node, node.input(7, "cos_cache"), positions);
    const ValueId sin = rows_at(node, node.input(8, "sin_cache"), positions);
    const bool interleaved = node.attr_int("rotary_interleaved", 0) != 0;
    form.q = rotate(node, form.q, cos, sin, interleaved);
    form.k = rotate(node, form.k, cos, sin, interleaved);
  }
  if (past_length != Dim(0)) {
    form.k = append_to_cache(node, node.input(3, "past_key"), form.k);
    form.v = append_to_cache(node, node.input(4, "past_value"), form.v);
  }
  form.scale = read_scale(node, form.q);
  form.softcap = node.attr_float("softcap", 0);
  const Dim keys = node.shape(form.k)[2];
  if (node.has_input(5)) {
    const ValueId last = node.reshape(node.cast(node.input(5, "seqlens_k"), DType::kInt64),
                                      {batch, Dim(1), Dim(1), Dim(1)});
    form.masks.push_back(node.add("LessOrEqual", {positions_from(node, 0, keys), last}));
  }
  if (node.has_input(10)) form.masks.push_back(node.input(10, "attention_bias"));
  const std::int64_t window = node.attr_int("local_window_size", -1);
  if (node.attr_int("causal", 1) != 0) {
    form.causal_offset = past_length;
    form.window = std::max<std::int64_t>(window, 0);
  } else if (window > 0) {
    node.invalid("local_window_size needs causal attention");
  }
  if (node.has_input(11))
    form.sink = node.input(11, "head_sink");
  else if (node.attr_int("smooth_softmax", 0) > 0)
    form.sink = node.expand(node.constant(node.dtype(query), 0), {Dim(heads)});
  const AttentionStages stages = attend(node, form);
  node.output(0, merge_heads(node, stages.y));
  node.output(1, form.k);
  node.output(2, form.v);
  const std::int64_t shown = node.attr_int("qk_output", 0);
  if (shown == 1) node.output(3, stages.product);
  if (shown == 2) node.output(3, stages.weights);
}

/// The heads of x [batch, length, heads * size] by the attributes, or by what the angles turn.
std::int64_t heads_to_rotate(NodeContext& node, ValueId x, std::int64_t turned, const Dim& pairs) {
  if (const std::int64_t heads = node.attr_int("num_heads", 0); heads != 0) return heads;
  if (turned != 0)
    node.invalid(
        "attribute 'rotary_embedding_dim' needs 'num_heads' with inputs of three dimensions");
  const auto count = ir::divide_exactly(node.shape(x)[2], Dim(2) * pairs);
  if (!count || !count->is_constant())
    node.invalid(fmt::format("{} is not made of heads of size {}", ir::to_string(node.type(x)),
                             (Dim(2) * pairs).to_string()));
  return count->value();
}

/// position_ids as [batch, length]. One position is that of the first token.
ValueId rotary_positions(NodeContext& node, ValueId x, const Dim& rows) {
  const ValueId positions = node.input(1, "position_ids");
  const Dim batch = node.shape(x)[0], length = node.shape(x)[2];
  check_dtype(node, positions, "position_ids", {DType::kInt64});
  if (node.rank(positions) != 1) {
    check_shape(node, positions, "position_ids", {batch, length});
    node.check_indices(positions, rows);
    return positions;
  }
  check_shape(node, positions, "position_ids", {Dim(1)});
  if (rows.is_constant() && length.is_constant() && length.value() > rows.value())
    node.invalid(fmt::format("cos_cache has {} positions, but there are {} tokens",
                             rows.to_string(), length.to_string()));
  return node.add("Add", {positions, positions_from(node, 0, length)});
}

/// Inputs input, position_ids, cos_cache, sin_cache.
void microsoft_rotary_embedding(NodeContext& node) {
  refuse_attr(node, "is_packed_batching", 0);
  ValueId x = node.input(0, "input");
  const ValueId cos = node.input(2, "cos_cache"), sin = node.input(3, "sin_cache");
  const bool is_flat = node.rank(x) == 3;
  const std::int64_t turned = node.attr_int("rotary_embedding_dim", 0);
  if (node.rank(cos) != 2)
    node.invalid("cos_cache must be [positions, angles], but is " + ir::to_string(node.type(cos)));
  const Dim rows = node.shape(cos)[0], pairs = node.shape(cos)[1];
  check_shape(node, sin, "sin_cache", node.shape(cos));
  if (is_flat) x = split_heads(node, x, heads_to_rotate(node, x, turned, pairs));
  if (node.rank(x) != 4)
    node.invalid("input must have three or four dimensions, but is " + ir::to_string(node.type(x)));
  const Dim size = turned != 0 ? Dim(turned) : node.shape(x)[3];
  if ((Dim(2) * pairs - size).is_constant() && Dim(2) * pairs != size)
    node.invalid(fmt::format("cos_cache is {}, which does not hold {} / 2 angles",
                             ir::to_string(node.type(cos)), size.to_string()));
  const ValueId positions = rotary_positions(node, x, rows);
  ValueId result = rotate(node, x, rows_at(node, cos, positions), rows_at(node, sin, positions),
                          node.attr_int("interleaved", 0) != 0);
  if (const double scale = node.attr_float("scale", 1); scale != 1)
    node.unsupported(fmt::format("attribute 'scale' is {}; export with 1", scale));
  node.output(is_flat ? merge_heads(node, result) : result);
}

constexpr OpRow kMicrosoftAttentionOps[] = {
    {"GroupQueryAttention", 1, group_query_attention,
     "causal do_rotary k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads "
     "qk_norm_epsilon qk_output rotary_interleaved scale sliding_window_cache smooth_softmax "
     "softcap v_quant_type",
     kMicrosoft},
    {"RotaryEmbedding", 1, microsoft_rotary_embedding,
     "interleaved is_packed_batching num_heads rotary_embedding_dim scale", kMicrosoft},
};

}  // namespace

std::span<const OpRow> microsoft_attention_ops() { return kMicrosoftAttentionOps; }

}  // namespace sinter::frontend
