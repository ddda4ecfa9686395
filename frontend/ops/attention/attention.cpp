// SPDX-License-Identifier: Apache-2.0
// Attention, RotaryEmbedding and FlexAttention.
#include <limits>

#include "frontend/model/initializers.h"
#include "frontend/ops/attention/attention_core.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

std::optional<DType> softmax_precision(NodeContext& node) {
  if (!node.has_attr("softmax_precision")) return std::nullopt;
  const auto type = static_cast<int>(node.attr_int("softmax_precision"));
  if (type == 0) return std::nullopt;
  return require_dtype(type, "attribute 'softmax_precision'");
}

/// Pads a mask that is shorter than the keys: the remaining keys are hidden.
ValueId padded_mask(NodeContext& node, ValueId mask, const Dim& keys) {
  const Shape shape = node.shape(mask);
  if (shape.empty() || shape.back() == keys || shape.back() == Dim(1)) return mask;
  std::vector<Dim> begins(shape.size(), Dim(0)), ends = begins;
  ends.back() = keys - shape.back();
  const bool is_bool = node.dtype(mask) == DType::kBool;
  return node.add("Pad", {mask},
                  {{"begins", begins},
                   {"ends", ends},
                   {"fill", is_bool ? 0.0 : -std::numeric_limits<double>::infinity()}});
}

/// Visible keys by position: query i has the position p = i + offset among the keys.
struct Window {
  Dim offset = 0;
  ValueId lengths;  // number of keys per sample, if valid: the offset is then lengths - queries
  std::optional<std::int64_t> behind, ahead;  // visible keys p - behind .. p + ahead; nullopt:
                                              // unlimited
};

std::optional<std::int64_t> window_size(NodeContext& node, const char* name) {
  const std::int64_t size = node.attr_int(name, -1);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // limit of the window in keys: far from
                                                         // overflow
  if (size < -1) node.invalid("attribute '{}' is {}; it must be -1 or more", name, size);
  return size < 0 ? std::nullopt : std::optional(std::min(size, kMost));
}

Window read_window(NodeContext& node, const Dim& past) {
  Window window{
      past, {}, window_size(node, "left_window_size"), window_size(node, "right_window_size")};
  if (node.attr_int("is_causal", 0) != 0) window.ahead = 0;
  if (!node.has_input(6)) return window;
  if (node.has_input(4))
    node.invalid(
        "nonpad_kv_seqlen is of caches that the model updates itself: past_key cannot be given "
        "with it");
  window.lengths = node.input(6, "nonpad_kv_seqlen");
  return window;
}

/// Adds the masks of a window. Fused attention skips keys only for tests of the form j < limit.
void add_window(NodeContext& node, const Window& window, const Dim& queries, const Dim& keys,
                AttentionForm& form) {
  const bool by_length = window.lengths.valid();
  if (!by_length && window.ahead == 0) {
    form.causal_offset = window.offset;
    form.window = window.behind ? *window.behind + 1 : 0;
    return;
  }
  const auto number = [&](const Dim& dim) { return size_of_dim(node, dim); };
  const Term j(node, positions_from(node, 0, keys));
  std::optional<Term> lengths;  // [batch, 1, 1, 1]
  if (by_length) {
    const Dim batch = ir::element_count(node.shape(window.lengths));
    lengths = Term(node, window.lengths).cast(DType::kInt64).reshape({batch, 1, 1, 1});
  }
  const auto place = [&] {
    const Term i = iota(node, queries, 0, 2);
    return by_length ? *lengths + (i - number(queries)) : i + number(window.offset);
  };
  if (window.ahead)
    form.masks.push_back(j.with("Less", place() + static_cast<double>(*window.ahead + 1)).value());
  // The last query has the last key's position.
  if (by_length && window.ahead != 0) form.masks.push_back(j.with("Less", *lengths).value());
  if (window.behind)
    form.masks.push_back(
        j.with("GreaterOrEqual", place() - static_cast<double>(*window.behind)).value());
}

void attention(NodeContext& node) {
  AttentionForm form{node.input(0, "Q"), node.input(1, "K"), node.input(2, "V")};
  const bool is_flat = node.rank(form.q) == 3;
  if (is_flat) {
    const std::int64_t kv_heads = node.attr_int("kv_num_heads");
    form.q = split_heads(node, form.q, node.attr_int("q_num_heads"));
    form.k = split_heads(node, form.k, kv_heads);
    form.v = split_heads(node, form.v, kv_heads);
  }
  if (node.has_input(4) != node.has_input(5))
    node.invalid("past_key and past_value must be given together");
  Dim past = 0;
  if (node.has_input(4)) {
    const ValueId past_key = node.input(4, "past_key");
    if (node.rank(past_key) == 4) past = node.shape(past_key)[2];
    form.k = append_to_cache(node, past_key, form.k);
    form.v = append_to_cache(node, node.input(5, "past_value"), form.v);
  }
  if (node.rank(form.k) != 4)
    node.invalid("K must have three or four dimensions, but is {}", node.type(form.k));
  const Dim keys = node.shape(form.k)[2];
  form.scale = node.has_attr("scale") ? node.attr_float("scale") : default_scale(node, form.q);
  form.softcap = node.attr_float("softcap", 0);
  form.softmax_type = softmax_precision(node);
  if (node.has_input(3)) form.masks.push_back(padded_mask(node, node.input(3, "attn_mask"), keys));
  if (node.rank(form.q) != 4)
    node.invalid("Q must have three or four dimensions, but is {}", node.type(form.q));
  add_window(node, read_window(node, past), node.shape(form.q)[2], keys, form);
  // With causal masking alone, every row sees at least its first key.
  form.zeros_if_hidden = !form.masks.empty() || form.window > 0;
  const AttentionStages stages = attend(node, form);
  node.output(0, is_flat ? merge_heads(node, stages.y) : stages.y);
  node.output(1, form.k);
  node.output(2, form.v);
  const std::int64_t mode = node.attr_int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    node.invalid("attribute 'qk_matmul_output_mode' is {}, not 0 to 3", mode);
  const ValueId shown[] = {stages.product, stages.capped, stages.masked, stages.weights};
  if (node.output_is_used(3)) node.output(3, node.cast(shown[mode], node.dtype(form.q)));
}

/// Attention with subgraphs of the model between its steps.
void flex_attention(NodeContext& node) {
  AttentionForm form{node.input(0, "Q"), node.input(1, "K"), node.input(2, "V")};
  form.scale = node.has_attr("scale") ? node.attr_float("scale") : default_scale(node, form.q);
  const DType dtype = node.dtype(form.q);
  form.softmax_type = softmax_precision(node).value_or(compute_type(dtype));
  const auto by_graph = [&](const char* name) -> std::function<ValueId(ValueId)> {
    if (!node.has_attr(name)) return nullptr;
    return [&node, name](ValueId value) {
      const auto results = node.subgraph(name, {{value}}, std::string("/") + name);
      if (!results) return value;  // unsupported nodes were noted: the result is dropped
      if (results->size() != 1 || node.type(results->front()) != node.type(value))
        node.invalid("its graph '{}' must have one output of type {}", name, node.type(value));
      return results->front();
    };
  };
  form.change_scores = by_graph("score_mod");
  form.change_weights = by_graph("prob_mod");
  node.output(attend(node, form).y);
}

/// Inputs X, cos_cache, sin_cache, position_ids. With positions the caches are tables; without,
/// they have the angles of every token.
void rotary_embedding(NodeContext& node) {
  ValueId x = node.input(0, "X"), cos = node.input(1, "cos_cache"),
          sin = node.input(2, "sin_cache");
  const bool is_flat = node.rank(x) == 3;
  const std::int64_t heads = node.attr_int("num_heads", 0);
  if (is_flat) x = split_heads(node, x, heads);
  if (node.rank(x) != 4)
    node.invalid("X must have three or four dimensions, but is {}", node.type(x));
  check_shape(node, sin, "sin_cache", node.shape(cos));
  if (node.has_input(3)) {
    const ValueId positions = node.input(3, "position_ids");
    check_dtype(node, positions, "position_ids", {DType::kInt64});
    check_shape(node, positions, "position_ids", {node.shape(x)[0], node.shape(x)[2]});
    cos = rows_at(node, cos, positions);
    sin = rows_at(node, sin, positions);
  }
  const std::int64_t turned = node.attr_int("rotary_embedding_dim", 0);
  const Dim pairs = node.shape(cos).empty() ? Dim(0) : node.shape(cos).back();
  const Dim wanted = turned != 0 ? Dim(turned) : node.shape(x)[3];
  if (Dim(2) * pairs != wanted)
    node.invalid("cos_cache is {}, which does not hold {} / 2 angles", node.type(cos), wanted);
  const ValueId result = rotate(node, x, cos, sin, node.attr_int("interleaved", 0) != 0);
  node.output(is_flat ? merge_heads(node, result) : result);
}

}  // namespace

const OpRows kAttentionOps = {
    {"Attention", 23, attention,
     "is_causal kv_num_heads left_window_size:25- q_num_heads qk_matmul_output_mode "
     "right_window_size:25- scale softcap softmax_precision"},
    {"FlexAttention", 1, flex_attention, "prob_mod scale score_mod softmax_precision",
     "ai.onnx.preview"},
    {"RotaryEmbedding", 23, rotary_embedding, "interleaved num_heads rotary_embedding_dim"},
};

}  // namespace sinter::frontend
