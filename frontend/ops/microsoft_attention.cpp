// Attention operators of com.microsoft. Sources: ContribOperators.md of ONNX Runtime 1.2x.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "frontend/ops/attention_core.h"
#include "frontend/ops/op_table.h"
#include "frontend/ops/unroll.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::ValueId;

/// What is added to scores where `keep` is false: attribute mask_filter_value.
ValueId filter(NodeContext& node, ValueId keep, DType dtype) {
  const double value = node.attr_float("mask_filter_value", -10000.0f);
  return node.add("Where", {keep, node.constant(dtype, 0), node.constant(dtype, value)});
}

/// A padding mask of 0 (hidden) and 1, [batch, keys] or [batch, queries, keys], or lengths [batch].
ValueId padding_mask(NodeContext& node, ValueId mask, const Dim& batch, const Dim& keys,
                     DType dtype) {
  const Shape shape = node.shape(mask);
  ValueId keep;
  if (shape == Shape{batch}) {
    const ValueId lengths =
        node.reshape(node.cast(mask, DType::kInt64), {batch, Dim(1), Dim(1), Dim(1)});
    keep = node.add("Less", {positions_from(node, 0, keys), lengths});
  } else if ((shape.size() == 2 || shape.size() == 3) && shape.back() == keys) {
    keep = node.add("Greater", {mask, node.constant(node.dtype(mask), 0)});
    Shape spread{shape[0], Dim(1), Dim(1), keys};
    if (shape.size() == 3) spread[2] = shape[1];
    keep = node.reshape(keep, spread);
  } else {
    node.unsupported(fmt::format(
        "its mask is {}; supported are [{}], [{}, {}] and [{}, queries, {}]: export with a mask of "
        "two dimensions",
        ir::to_string(node.type(mask)), batch.to_string(), batch.to_string(), keys.to_string(),
        batch.to_string(), keys.to_string()));
  }
  return filter(node, keep, dtype);
}

/// One product for q, k and v, then attention over `num_heads`.
void packed_attention(NodeContext& node) {
  for (const char* name : {"do_rotary", "past_present_share_buffer"})
    if (node.attr_int(name, 0) != 0)
      node.unsupported(fmt::format("attribute '{}' is set; export without it", name));
  const ValueId x = node.input(0, "input"), weights = node.input(1, "weights");
  const std::int64_t heads = node.attr_int("num_heads");
  if (node.rank(x) != 3 || node.rank(weights) != 2)
    node.invalid(
        fmt::format("input must be [batch, length, size] and weights a matrix, but are {} "
                    "and {}",
                    ir::to_string(node.type(x)), ir::to_string(node.type(weights))));
  ValueId projected = node.add("MatMul", {x, weights});
  if (node.has_input(2)) projected = node.add("Add", {projected, node.input(2, "bias")});
  const Dim width = node.shape(weights)[1];
  std::vector<Dim> sizes;
  if (const auto given = node.attr_ints("qkv_hidden_sizes"); given && !given->empty())
    sizes.assign(given->begin(), given->end());
  else if (const auto third = ir::divide_exactly(width, 3))
    sizes.assign(3, *third);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != width)
    node.invalid(fmt::format("weights {} do not hold queries, keys and values",
                             ir::to_string(node.type(weights))));
  AttentionForm form;
  form.q = split_heads(node, part(node, projected, 2, 0, sizes[0]), heads);
  form.k = split_heads(node, part(node, projected, 2, sizes[0], sizes[1]), heads);
  form.v = split_heads(node, part(node, projected, 2, sizes[0] + sizes[1], sizes[2]), heads);
  Dim past_length = 0;
  if (node.has_input(4)) {
    const ValueId past = node.input(4, "past");
    if (node.rank(past) != 5 || node.shape(past)[0] != Dim(2))
      node.invalid("past must be [2, batch, heads, length, size], but is " +
                   ir::to_string(node.type(past)));
    past_length = node.shape(past)[3];
    form.k = append_to_cache(node, element(node, past, 0, 0), form.k);
    form.v = append_to_cache(node, element(node, past, 0, 1), form.v);
  }
  form.scale = read_scale(node, form.q);
  const DType dtype = node.dtype(x);
  if (node.has_input(3))
    form.masks.push_back(padding_mask(node, node.input(3, "mask_index"), node.shape(x)[0],
                                      node.shape(form.k)[2], dtype));
  if (node.has_input(5)) form.masks.push_back(node.input(5, "attention_bias"));
  if (node.attr_int("unidirectional", 0) != 0) form.causal_offset = past_length;
  node.output(0, merge_heads(node, attend(node, form).y));
  if (node.output_is_used(1)) node.output(1, stack(node, {form.k, form.v}, node.type(form.k), 0));
}

/// Part `i` of [batch, length, heads, parts, size] as [batch, heads, length, size].
ValueId unpacked(NodeContext& node, ValueId packed, std::int64_t i) {
  return node.transpose(element(node, packed, 3, i), {0, 2, 1, 3});
}

void multi_head_attention(NodeContext& node) {
  const std::int64_t heads = node.attr_int("num_heads");
  if (node.has_input(8) || node.has_input(9))
    node.unsupported(
        "its cache is a shared buffer (past_sequence_length); export without buffer "
        "sharing");
  const ValueId query = node.input(0, "query");
  const bool has_key = node.has_input(1), has_value = node.has_input(2);
  AttentionForm form;
  // A key of four dimensions is the cache of a cross-attention: its bias is in it.
  bool is_cache = false;
  if (node.rank(query) == 5) {
    form.q = unpacked(node, query, 0);
    form.k = unpacked(node, query, 1);
    form.v = unpacked(node, query, 2);
  } else {
    form.q = split_heads(node, query, heads);
    const ValueId key = node.input(1, "key");
    if (node.rank(key) == 5) {
      form.k = unpacked(node, key, 0);
      form.v = unpacked(node, key, 1);
    } else if (!has_key || !has_value) {
      node.invalid("key and value must be given together unless they are packed");
    } else {
      const ValueId value = node.input(2, "value");
      is_cache = node.rank(key) == 4;
      form.k = is_cache ? key : split_heads(node, key, heads);
      form.v = node.rank(value) == 4 ? value : split_heads(node, value, heads);
    }
  }
  const DType dtype = node.dtype(query);
  if (node.has_input(3)) {
    // One vector: of the queries, of the keys, of the values.
    const ValueId bias = node.input(3, "bias");
    Dim begin = 0;
    const auto add_bias = [&](ValueId value, bool applies) {
      const Shape shape = node.shape(value);
      const Dim size = shape[1] * shape[3];
      const ValueId own =
          node.reshape(part(node, bias, 0, begin, size), {shape[1], Dim(1), shape[3]});
      begin = begin + size;
      return applies ? node.add("Add", {value, own}) : value;
    };
    form.q = add_bias(form.q, true);
    form.k = add_bias(form.k, !is_cache);
    form.v = add_bias(form.v, !is_cache);
  }
  Dim past_length = 0;
  if (node.has_input(6) && node.has_input(7) && !is_cache) {
    const ValueId past = node.input(6, "past_key");
    if (node.rank(past) != 4)
      node.invalid("past_key must be [batch, heads, length, size], but is " +
                   ir::to_string(node.type(past)));
    past_length = node.shape(past)[2];
    form.k = append_to_cache(node, past, form.k);
    form.v = append_to_cache(node, node.input(7, "past_value"), form.v);
  }
  form.scale = read_scale(node, form.q);
  if (node.has_input(4))
    form.masks.push_back(padding_mask(node, node.input(4, "key_padding_mask"),
                                      node.shape(form.q)[0], node.shape(form.k)[2], dtype));
  if (node.has_input(5)) form.masks.push_back(node.input(5, "attention_bias"));
  if (node.attr_int("unidirectional", 0) != 0) form.causal_offset = past_length;
  const AttentionStages stages = attend(node, form);
  node.output(0, merge_heads(node, stages.y));
  node.output(1, form.k);
  node.output(2, form.v);
  node.output(3, stages.weights);
}

void refuse_attr(NodeContext& node, const char* name, std::int64_t plain) {
  if (const std::int64_t value = node.attr_int(name, plain); value != plain)
    node.unsupported(fmt::format("attribute '{}' is {}; export with {}", name, value, plain));
}

/// Inputs input, position_ids, cos_cache, sin_cache. One position is that of the first token.
void microsoft_rotary_embedding(NodeContext& node) {
  refuse_attr(node, "is_packed_batching", 0);
  ValueId x = node.input(0, "input"), positions = node.input(1, "position_ids");
  const ValueId cos = node.input(2, "cos_cache"), sin = node.input(3, "sin_cache");
  const bool is_flat = node.rank(x) == 3;
  const std::int64_t turned = node.attr_int("rotary_embedding_dim", 0);
  if (node.rank(cos) != 2)
    node.invalid("cos_cache must be [positions, angles], but is " + ir::to_string(node.type(cos)));
  if (is_flat) {
    std::int64_t heads = node.attr_int("num_heads", 0);
    const Dim size = turned != 0 ? Dim(turned) : Dim(2) * node.shape(cos)[1];
    if (heads == 0) {
      const auto count = ir::divide_exactly(node.shape(x)[2], size);
      if (!count || !count->is_constant())
        node.invalid(fmt::format("{} is not made of heads of size {}", ir::to_string(node.type(x)),
                                 size.to_string()));
      heads = count->value();
    }
    x = split_heads(node, x, heads);
  }
  if (node.rank(x) != 4)
    node.invalid("input must have three or four dimensions, but is " + ir::to_string(node.type(x)));
  if (node.rank(positions) == 1) {
    const ValueId steps = positions_from(node, 0, node.shape(x)[2]);
    positions = node.add("Add", {node.cast(positions, DType::kInt64), steps});
  }
  ValueId result = rotate(node, x, rows_at(node, cos, positions), rows_at(node, sin, positions),
                          node.attr_int("interleaved", 0) != 0);
  if (const double scale = node.attr_float("scale", 1); scale != 1)
    node.unsupported(fmt::format("attribute 'scale' is {}; export with 1", scale));
  node.output(is_flat ? merge_heads(node, result) : result);
}

constexpr OpRow kMicrosoftAttentionOps[] = {
    {"Attention", 1, packed_attention,
     "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes "
     "rotary_embedding_dim scale unidirectional",
     kMicrosoft},
    {"MultiHeadAttention", 1, multi_head_attention,
     "mask_filter_value num_heads scale unidirectional", kMicrosoft},
    {"RotaryEmbedding", 1, microsoft_rotary_embedding,
     "interleaved is_packed_batching num_heads rotary_embedding_dim scale", kMicrosoft},
};

}  // namespace

std::span<const OpRow> microsoft_attention_ops() { return kMicrosoftAttentionOps; }

}  // namespace sinter::frontend
