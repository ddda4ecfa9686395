// SPDX-License-Identifier: Apache-2.0
// Attention, MultiHeadAttention and their quantized and decoding forms of com.microsoft. Source:
// ContribOperators.md of ONNX Runtime.
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/ops/attention/attention_core.h"
#include "frontend/ops/attention/attention_masks.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/quantization/quantized.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

/// Indices of an operator's optional inputs.
struct Inputs {
  std::size_t bias, mask, attention_bias, past_key, past_value;
};

bool has(const NodeContext& node, std::size_t i) { return i != kNone && node.has_input(i); }

ScoreSizes sizes_of(NodeContext& node, const AttentionForm& form, const Dim& past) {
  const Shape q = node.shape(form.q), k = node.shape(form.k);
  return {q[0], q[1], q[2], past, k[2]};
}

void refuse_shared_buffer(NodeContext& node) {
  if (node.attr_int("past_present_share_buffer", 0) != 0)
    node.unsupported(
        "its cache is a buffer that past and present share (past_present_share_buffer=1): export "
        "without buffer sharing");
}

/// Adds masks, scale and attention to a form with q, k and v; the first `past` keys are the past.
AttentionStages finish(NodeContext& node, AttentionForm& form, const Inputs& inputs,
                       const Dim& past) {
  const DType dtype = node.dtype(form.q);
  const ScoreSizes sizes = sizes_of(node, form, past);
  form.scale = read_scale(node, form.q);
  if (has(node, inputs.mask))
    form.masks.push_back(
        padding_mask(node, node.input(inputs.mask, "mask"), "its mask", sizes, dtype));
  if (node.op_type() != "DecoderMaskedMultiHeadAttention" &&
      node.attr_int("unidirectional", 0) != 0)
    form.causal_offset = past;
  if (has(node, inputs.attention_bias))
    form.masks.push_back(attention_bias(node, inputs.attention_bias, sizes));
  return attend(node, form);
}

/// Masked scores for output: hidden ones are the type's lowest number instead of -infinity.
ValueId visible_scores(NodeContext& node, ValueId scores) {
  const DType dtype = node.dtype(scores);
  const double least = dtype == DType::kFloat16    ? -65504.0
                       : dtype == DType::kBFloat16 ? -3.3895313892515355e38
                                                   : -3.4028234663852886e38;
  return node.add("Max", {scores, node.constant(dtype, least)});
}

// ---- Attention: one matmul for q, k and v

/// Rotates queries and keys, for tokens from position `past` on. A pair's elements are half the
/// rotated size apart; pair i of p turns by position * 10000^(-i / p).
void rotate_by_position(NodeContext& node, AttentionForm& form, const Dim& past) {
  const Shape shape = node.shape(form.q);
  const std::int64_t given = node.attr_int("rotary_embedding_dim", 0);
  if (given == 0 && !shape[3].is_constant())
    node.unsupported("it rotates heads of symbolic size: fix that dimension (--dim)");
  const std::int64_t turned = given != 0 ? given : shape[3].value();
  if (turned < 2 || turned % 2 != 0 || (shape[3].is_constant() && turned > shape[3].value()))
    node.invalid("attribute 'rotary_embedding_dim' is {}, which does not fit heads of {}", given,
                 shape[3]);
  std::vector<double> speeds;
  for (std::int64_t i = 0; i < turned / 2; ++i)
    speeds.push_back(
        std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(turned)));
  const Term speed(node, node.builder().constant(ir::Tensor::from_doubles(
                             DType::kFloat32, {1, 1, turned / 2}, speeds)));
  const Term position = Term(node, positions_from(node, past, shape[2]))
                            .cast(DType::kFloat32)
                            .reshape({Dim(1), shape[2], Dim(1)});
  const Term angle = position * speed;
  const ValueId cos = angle.apply("Cos").value(), sin = angle.apply("Sin").value();
  form.q = rotate(node, form.q, cos, sin, false);
  form.k = rotate(node, form.k, cos, sin, false);
}

/// Sizes of queries, keys and values; their sum is `width`.
std::vector<Dim> hidden_sizes(NodeContext& node, const Dim& width, ValueId weights) {
  std::vector<Dim> sizes;
  const auto given =
      node.op_type() == "QAttention" ? std::nullopt : node.attr_ints("qkv_hidden_sizes");
  if (given && !given->empty())
    sizes.assign(given->begin(), given->end());
  else if (const auto third = ir::divide_exactly(width, 3))
    sizes.assign(3, *third);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != width || sizes[0] != sizes[1])
    node.invalid("weights {} do not hold queries, keys and values{}", node.type(weights),
                 given ? fmt::format(" of qkv_hidden_sizes [{}]", fmt::join(*given, ", ")) : "");
  return sizes;
}

/// Attention of `projected` [batch, length, sizes of q, k and v].
void attend_to_self(NodeContext& node, ValueId projected, ValueId weights, const Inputs& inputs) {
  refuse_shared_buffer(node);
  const std::int64_t heads = node.attr_int("num_heads");
  const std::vector<Dim> sizes = hidden_sizes(node, node.shape(weights)[1], weights);
  AttentionForm form;
  form.q = split_heads(node, part(node, projected, 2, 0, sizes[0]), heads);
  form.k = split_heads(node, part(node, projected, 2, sizes[0], sizes[1]), heads);
  form.v = split_heads(node, part(node, projected, 2, sizes[0] + sizes[1], sizes[2]), heads);
  Dim past_length = 0;
  ValueId past;
  if (has(node, inputs.past_key)) {
    past = node.input(inputs.past_key, "past");
    const Shape own = node.shape(form.k);
    past_length = node.rank(past) == 5 ? node.shape(past)[3] : Dim(0);
    check_shape(node, past, "past", {Dim(2), own[0], own[1], past_length, own[3]});
  }
  if (node.attr_int("do_rotary", 0) != 0) rotate_by_position(node, form, past_length);
  if (past.valid()) {
    form.k = append_to_cache(node, element(node, past, 0, 0), form.k);
    form.v = append_to_cache(node, element(node, past, 0, 1), form.v);
  }
  node.output(0, merge_heads(node, finish(node, form, inputs, past_length).y));
  if (node.output_is_used(1)) node.output(1, stack(node, {form.k, form.v}, node.type(form.k), 0));
}

void check_projection(NodeContext& node, ValueId x, ValueId weights) {
  if (node.rank(x) != 3 || node.rank(weights) != 2)
    node.invalid("input must be [batch, length, size] and weights a matrix, but are {} and {}",
                 node.type(x), node.type(weights));
}

void packed_attention(NodeContext& node) {
  const ValueId x = node.input(0, "input"), weights = node.input(1, "weights");
  check_projection(node, x, weights);
  if (node.has_input(6)) node.unsupported("its past_sequence_length is of a shared buffer");
  ValueId projected = node.add("MatMul", {x, weights});
  if (node.has_input(2)) {
    const ValueId bias = node.input(2, "bias");
    check_shape(node, bias, "bias", {node.shape(weights)[1]});
    projected = node.add("Add", {projected, bias});
  }
  attend_to_self(node, projected, weights, {2, 3, 5, 4, 4});
}

/// Integer matmul: (input - zero point) (weight - zero point) * scales + bias.
void quantized_attention(NodeContext& node) {
  const ValueId x = node.input(0, "input"), weights = node.input(1, "weight");
  check_projection(node, x, weights);
  for (const auto& [value, what] : {std::pair{x, "input"}, std::pair{weights, "weight"}})
    check_dtype(node, value, what, {DType::kInt8, DType::kUInt8});
  const Term sum =
      integer_product(node, x, optional_input(node, 6), weights, optional_input(node, 7));
  const ValueId weight_scale = matrix_parameter(node, node.input(4, "weight_scale"), false);
  if (node.rank(weight_scale) != 0)
    check_shape(node, weight_scale, "weight_scale", {node.shape(weights)[1]});
  const Term step =
      one_number(node, 3, "input_scale").cast(DType::kFloat32) * as_float(node, weight_scale);
  Term projected =
      (sum.cast(DType::kFloat32) * step).cast(node.dtype(node.input(3, "input_scale")));
  if (node.has_input(2)) {  // ONNX Runtime's quantizer omits the bias if the Attention has none
    const ValueId bias = node.input(2, "bias");
    check_shape(node, bias, "bias", {node.shape(weights)[1]});
    projected = projected + Term(node, bias);
  }
  attend_to_self(node, projected.value(), weights, {2, 5, kNone, 8, 8});
}

// ---- MultiHeadAttention: separate queries, keys and values

/// Part `i` of [batch, length, heads, parts, size] as [batch, heads, length, size].
ValueId unpacked(NodeContext& node, ValueId packed, std::int64_t i) {
  return node.transpose(element(node, packed, 3, i), {0, 2, 1, 3});
}

void check_packed(NodeContext& node, ValueId packed, const char* what, std::int64_t parts) {
  const Shape shape = node.shape(packed);
  check_shape(node, packed, what,
              {shape[0], shape[1], Dim(node.attr_int("num_heads")), Dim(parts), shape[4]});
}

/// q, k and v of a node, and whether k and v are a cross-attention's cache, which includes the
/// bias.
struct Projections {
  ValueId q, k, v;
  bool is_cache = false;
};

Projections read_packed(NodeContext& node, ValueId query) {
  for (const std::size_t i : {1, 2})
    if (node.has_input(i))
      node.invalid("query holds keys and values too: key and value cannot be given with it");
  check_packed(node, query, "query", 3);
  return {unpacked(node, query, 0), unpacked(node, query, 1), unpacked(node, query, 2)};
}

Projections read_projections(NodeContext& node) {
  const std::int64_t heads = node.attr_int("num_heads");
  const ValueId query = node.input(0, "query");
  if (node.rank(query) == 5) return read_packed(node, query);
  Projections found{split_heads(node, query, heads), {}, {}};
  const ValueId key = node.input(1, "key");
  if (node.rank(key) == 5) {
    if (node.has_input(2)) node.invalid("key holds values too: value cannot be given with it");
    check_packed(node, key, "key", 2);
    found.k = unpacked(node, key, 0);
    found.v = unpacked(node, key, 1);
    return found;
  }
  const ValueId value = node.input(2, "value");
  if (node.rank(key) != node.rank(value) || (node.rank(key) != 3 && node.rank(key) != 4))
    node.invalid(
        "key {} and value {} must both be [batch, length, size], or a cache [batch, "
        "heads, length, size]",
        node.type(key), node.type(value));
  found.is_cache = node.rank(key) == 4;
  found.k = found.is_cache ? key : split_heads(node, key, heads);
  found.v = found.is_cache ? value : split_heads(node, value, heads);
  return found;
}

/// Adds the parts of `bias`, which concatenates vectors for queries, keys and values.
void add_bias(NodeContext& node, ValueId bias, Projections& to) {
  const auto width = [&](ValueId value) { return node.shape(value)[1] * node.shape(value)[3]; };
  check_shape(node, bias, "bias", {width(to.q) + width(to.k) + width(to.v)});
  Dim begin = 0;
  for (ValueId* value : {&to.q, &to.k, &to.v}) {
    const Shape shape = node.shape(*value);
    const Dim size = width(*value);
    const ValueId own =
        node.reshape(part(node, bias, 0, begin, size), {shape[1], Dim(1), shape[3]});
    begin = begin + size;
    if (value == &to.q || !to.is_cache) *value = node.add("Add", {*value, own});
  }
}

/// Prepends the past to k and v; returns its length.
Dim append_to_past(NodeContext& node, const Inputs& inputs, Projections& to) {
  if (!has_both(node, inputs.past_key, "past_key", inputs.past_value, "past_value")) return 0;
  const auto appended = [&](std::size_t i, const char* what, const Dim& length, ValueId value) {
    const ValueId past = node.input(i, what);
    const Shape own = node.shape(value);
    check_shape(node, past, what, {own[0], own[1], length, own[3]});
    return append_to_cache(node, past, value);
  };
  const ValueId past = node.input(inputs.past_key, "past_key");
  const Dim length = node.rank(past) == 4 ? node.shape(past)[2] : Dim(0);
  to.k = appended(inputs.past_key, "past_key", length, to.k);
  to.v = appended(inputs.past_value, "past_value", length, to.v);
  return length;
}

// ---- Caches that are one buffer for all steps

/// A mask for `columns` keys with columns for all rows of a buffer; the others are hidden anyway.
ValueId padded_mask(NodeContext& node, ValueId mask, const Dim& columns, const Dim& rows) {
  if (columns == rows) return mask;
  std::vector<Dim> ends(static_cast<std::size_t>(node.rank(mask)), Dim(0));
  const std::vector<Dim> begins = ends;
  ends.back() = rows - columns;
  return node.add("Pad", {mask}, {{"begins", begins}, {"ends", ends}, {"fill", 0.0}});
}

/// Each beam's rows of `buffer` [batch * beams, heads, rows, size]: row k < past of beam j is that
/// of the beam that `indirection` [batch, beams, rows] has at [.., j, k].
ValueId rows_of_beams(NodeContext& node, ValueId buffer, ValueId indirection, const Term& past) {
  const Shape shape = node.shape(buffer), by_beam = node.shape(indirection);
  if (by_beam.size() != 3)
    node.invalid("cache_indirection is {}, not [batch, beams, rows]", node.type(indirection));
  check_shape(node, indirection, "cache_indirection", {by_beam[0], by_beam[1], shape[2]});
  const Dim batch = by_beam[0] * by_beam[1];
  const Term beams = size_of_dim(node, by_beam[1]), own = iota(node, batch, 0, 4),
             row = iota(node, shape[2], 2, 4);
  const Term given =
      Term(node, indirection).cast(DType::kInt64).reshape({batch, Dim(1), shape[2], Dim(1)});
  const Term source =
      select(row.with("Less", past.reshape({1, 1, 1, 1})), own / beams * beams + given, own);
  return take(Term(node, buffer),
              {source, iota(node, shape[1], 1, 4), row, iota(node, shape[3], 3, 4)})
      .value();
}

/// Writes the new rows behind the past ones, of which there are as many as input `length` says.
/// `indirection`: the input that tells beams' rows, if the node has it.
void attend_in_buffer(NodeContext& node, const Projections& from, const Inputs& inputs,
                      std::size_t length, std::size_t indirection) {
  if (!has_both(node, inputs.past_key, "past_key", inputs.past_value, "past_value"))
    node.invalid("its past is a buffer that is absent");
  const Term past =
      one_number(node, length, "past_sequence_length").cast(DType::kInt64).reshape({1, 1});
  const auto written = [&](std::size_t i, const char* what, ValueId value) {
    const ValueId buffer = node.input(i, what);
    const Shape own = node.shape(value);
    if (node.rank(buffer) != 4) node.invalid("{} is {}, no cache", what, node.type(buffer));
    check_shape(node, buffer, what, {own[0], own[1], node.shape(buffer)[2], own[3]});
    return put_rows(node, buffer, value, past.value());
  };
  const ValueId keys = written(inputs.past_key, "past_key", from.k),
                values = written(inputs.past_value, "past_value", from.v);
  node.output(1, keys);
  node.output(2, values);
  AttentionForm form{from.q, keys, values};
  if (node.has_input(indirection)) {
    const ValueId beams = node.input(indirection, "cache_indirection");
    form.k = rows_of_beams(node, keys, beams, past);
    form.v = rows_of_beams(node, values, beams, past);
  }
  form.scale = read_scale(node, form.q);
  const Shape q = node.shape(form.q);
  const Dim rows = node.shape(keys)[2];
  const auto add_mask = [&](std::size_t i, const auto& read) {
    if (!has(node, i)) return;
    const Shape shape = node.shape(node.input(i, "mask"));
    const Dim columns = shape.size() < 2 ? rows : shape.back();
    form.masks.push_back(
        padded_mask(node, read({q[0], q[1], q[2], columns - q[2], columns}), columns, rows));
  };
  add_mask(inputs.mask, [&](const ScoreSizes& sizes) {
    return padding_mask(node, node.input(inputs.mask, "mask"), "its mask", sizes,
                        node.dtype(form.q));
  });
  add_mask(inputs.attention_bias, [&](const ScoreSizes& sizes) {
    return attention_bias(node, inputs.attention_bias, sizes);
  });
  const bool is_causal =
      node.op_type() == "MultiHeadAttention" && node.attr_int("unidirectional", 0) != 0;
  const Term place = past.reshape({1, 1, 1, 1});
  form.masks.push_back(iota(node, rows, 3, 4)
                           .with("Less", is_causal ? place + iota(node, q[2], 2, 4) + 1
                                                   : place + size_of_dim(node, q[2]))
                           .value());
  const AttentionStages stages = attend(node, form);
  node.output(0, merge_heads(node, stages.y));
  if (node.output_is_used(3)) node.unsupported("its scores (output 3) of a cache that is a buffer");
}

void attend_to(NodeContext& node, Projections from, const Inputs& inputs, std::size_t length,
               std::size_t indirection) {
  if (node.has_input(inputs.bias)) add_bias(node, node.input(inputs.bias, "bias"), from);
  if (node.has_input(length)) return attend_in_buffer(node, from, inputs, length, indirection);
  if (node.has_input(indirection)) node.invalid("cache_indirection needs past_sequence_length");
  const Dim past = append_to_past(node, inputs, from);
  AttentionForm form{from.q, from.k, from.v};
  const AttentionStages stages = finish(node, form, inputs, past);
  node.output(0, merge_heads(node, stages.y));
  node.output(1, form.k);
  node.output(2, form.v);
  if (node.output_is_used(3)) node.output(3, visible_scores(node, stages.masked));
}

void multi_head_attention(NodeContext& node) {
  attend_to(node, read_projections(node), {3, 4, 5, 6, 7}, 8, 9);
}

/// One new token; its keys and values may follow its query in one input.
void decoder_attention(NodeContext& node) {
  // ignores 'past_present_share_buffer', which past_sequence_length tells; beam_width is a size of
  // cache_indirection
  const ValueId query = node.input(0, "query");
  Projections found;
  if (node.has_input(1)) {
    found = read_projections(node);
  } else if (const auto third = node.rank(query) == 3 ? ir::divide_exactly(node.shape(query)[2], 3)
                                                      : std::nullopt) {
    const std::int64_t heads = node.attr_int("num_heads");
    const auto one = [&](const Dim& begin) {
      return split_heads(node, part(node, query, 2, begin, *third), heads);
    };
    found = {one(0), one(*third), one(Dim(2) * *third)};
  } else {
    node.invalid("without a key its query must be [batch, 1, 3 * size], but is {}",
                 node.type(query));
  }
  if (node.shape(found.q)[2] != Dim(1))
    node.invalid("query is {}; it must be of one token", node.type(query));
  if (node.output_is_used(3) && node.attr_int("output_qk", 0) == 0)
    node.invalid("its output 3 (qk) is used, but attribute 'output_qk' is 0");
  attend_to(node, found, {10, 3, 4, 5, 6}, 7, 9);
}

}  // namespace

const OpRows kMicrosoftMultiHeadOps = {
    {"Attention", 1, packed_attention,
     "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes "
     "rotary_embedding_dim scale unidirectional",
     kMicrosoft},
    {"MultiHeadAttention", 1, multi_head_attention,
     "mask_filter_value num_heads scale unidirectional", kMicrosoft},
    {"DecoderMaskedMultiHeadAttention", 1, decoder_attention,
     "mask_filter_value num_heads output_qk past_present_share_buffer scale", kMicrosoft},
    {"QAttention", 1, quantized_attention,
     "do_rotary mask_filter_value num_heads past_present_share_buffer scale unidirectional",
     kMicrosoft, Types::kIntegers},
};

}  // namespace sinter::frontend
