// SPDX-License-Identifier: Apache-2.0
// Normalizations of com.microsoft, fused by ONNX Runtime's optimizer with the operators before and
// after them; decomposed here.
#include "frontend/ops/normalisation.h"

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/quantization/quantized.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

double read_epsilon(NodeContext& node) { return node.attr_float("epsilon", 1e-12f); }

/// Input `i`: a vector along the last dimension of x.
ValueId over_last(NodeContext& node, std::size_t i, const char* what, ValueId x) {
  const ValueId value = node.input(i, what);
  if (node.rank(x) == 0) node.invalid("input is a scalar; it needs a dimension to normalise over");
  check_shape(node, value, what, {node.shape(x).back()});
  return value;
}

ValueId layer_norm(NodeContext& node, ValueId x, std::size_t gamma, std::size_t beta) {
  const ValueId shift =
      node.has_input(beta) ? over_last(node, beta, "beta", x) : node.constant(node.dtype(x), 0);
  return node.add("LayerNorm", {x, over_last(node, gamma, "gamma", x), shift},
                  {{"axis", node.rank(x) - 1}, {"epsilon", read_epsilon(node)}});
}

/// input + skip + bias, which is also output 3.
ValueId skip_sum(NodeContext& node, std::size_t bias) {
  const ValueId x = node.input(0, "input"), skip = node.input(1, "skip");
  ValueId sum = node.add("Add", {x, skip});
  if (node.shape(sum) != node.shape(x))
    node.invalid("skip is {}, which does not broadcast to the input's {}", node.type(skip),
                 node.type(x));
  if (node.has_input(bias)) sum = node.add("Add", {sum, over_last(node, bias, "bias", x)});
  node.output(3, sum);
  return sum;
}

void skip_layer_normalization(NodeContext& node) {
  const ValueId sum = skip_sum(node, 4);
  node.output(layer_norm(node, sum, 2, 3));
  output_statistics(node, sum, node.rank(sum) - 1, read_epsilon(node), 1, 2);
}

void skip_simplified_layer_normalization(NodeContext& node) {
  const ValueId sum = skip_sum(node, 3);
  const std::int64_t axis = node.rank(sum) - 1;
  node.output(node.add("RmsNorm", {sum, over_last(node, 2, "gamma", sum)},
                       {{"axis", axis}, {"epsilon", read_epsilon(node)}}));
  output_statistics(node, sum, axis, read_epsilon(node), 1, 2, false);
}

// ---- Embeddings

/// Floats, or integers with a scale and a zero point.
struct Table {
  ValueId values = {};  // invalid: the node lacks it
  std::optional<Term> scale = {}, zero = {};
};

/// Dequantizes `picked`, elements of `table`.
ValueId meaning(NodeContext& node, const Table& table, ValueId picked) {
  if (!table.scale) return picked;
  const Term difference_of = difference(node, picked, table.zero->value());
  return (difference_of.cast(DType::kFloat32) * *table.scale).value();
}

ValueId rows_of(NodeContext& node, const Table& table, ValueId indices) {
  return meaning(node, table,
                 node.add("Gather", {table.values, indices}, {{"axis", std::int64_t{0}}}));
}

/// Tables whose rows a node adds, and the normalization's parameters.
struct Embeddings {
  Table word, position, segment;
  Table gamma, beta;
};

/// Positions of the tokens: input 8, or 0, 1, ..
ValueId position_rows(NodeContext& node, const Table& table, const Dim& batch, const Dim& length,
                      bool are_given) {
  if (are_given) {
    const ValueId at = node.input(8, "position_ids");
    check_broadcasts(node, at, "position_ids", {batch, length}, {true, false});
    return rows_of(node, table, at);
  }
  const ValueId rows = table.values;
  if (node.rank(rows) == 2 && node.shape(rows)[0].is_constant())
    node.limit(length, node.shape(rows)[0].value());
  return meaning(node, table, part(node, rows, 0, 0, length));
}

/// Output 1: the number of ones in each row of the mask, input 7.
void output_lengths(NodeContext& node, const Dim& batch, const Dim& length) {
  if (!node.output_is_used(1)) return;
  if (!node.has_input(7))
    return node.output(1, node.expand(node.constant(DType::kInt32, 0), {batch}));
  const ValueId mask = node.input(7, "mask");
  check_shape(node, mask, "mask", {batch, length});
  const ValueId is_one = node.add("Equal", {mask, node.constant(node.dtype(mask), 1)});
  node.output(1, node.add("ReduceSum", {node.cast(is_one, DType::kInt32)},
                          {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}));
}

/// The sum of word, position and segment embeddings, normalised.
void embed(NodeContext& node, const Embeddings& from, bool has_positions) {
  const ValueId ids = node.input(0, "input_ids");
  if (node.rank(ids) != 2)
    node.invalid("input_ids must be [batch, length], but is {}", node.type(ids));
  const Dim batch = node.shape(ids)[0], length = node.shape(ids)[1];
  ValueId sum = node.add("Add", {rows_of(node, from.word, ids),
                                 position_rows(node, from.position, batch, length, has_positions)});
  if (from.segment.values.valid())
    sum = node.add("Add", {sum, rows_of(node, from.segment, node.input(1, "segment_ids"))});
  const ValueId gamma = meaning(node, from.gamma, from.gamma.values),
                beta = meaning(node, from.beta, from.beta.values);
  node.output(0, node.add("LayerNorm", {sum, gamma, beta},
                          {{"axis", std::int64_t{2}}, {"epsilon", read_epsilon(node)}}));
  node.output(2, sum);
  output_lengths(node, batch, length);
}

void embed_layer_normalization(NodeContext& node) {
  const bool has_segment = has_both(node, 1, "segment_ids", 4, "segment_embedding");
  embed(node,
        {{node.input(2, "word_embedding")},
         {node.input(3, "position_embedding")},
         has_segment ? Table{node.input(4, "segment_embedding")} : Table{},
         {node.input(5, "gamma")},
         {node.input(6, "beta")}},
        node.has_input(8));
}

/// Tables, gamma and beta are integers, with scalar scales and zero points.
void quantized_embed_layer_normalization(NodeContext& node) {
  const auto table = [&](std::size_t i, const char* what) {
    return Table{node.input(i, what), one_number(node, i + 6, "scale").cast(DType::kFloat32),
                 one_number(node, i + 11, "zero point")};
  };
  const bool has_segment = has_both(node, 1, "segment_ids", 4, "segment_embedding");
  embed(
      node,
      {table(2, "word_embedding"), table(3, "position_embedding"),
       has_segment ? table(4, "segment_embedding") : Table{}, table(5, "gamma"), table(6, "beta")},
      false);
}

// ---- Groups of channels

bool has_channels_last(NodeContext& node) {
  const std::int64_t last = node.attr_int("channels_last", 1);
  if (last != 0 && last != 1) node.invalid("attribute 'channels_last' is {}, not 0 or 1", last);
  return last == 1;
}

/// gamma * normalised + beta and its activation, of x [N, C, spatial..].
ValueId group_norm(NodeContext& node, ValueId x) {
  const ValueId normal =
      node.reshape(normalise_groups(node, x, node.attr_int("groups")), node.shape(x));
  const ValueId scaled = node.add("Mul", {normal, per_channel(node, 1, "gamma", x)});
  const ValueId y = node.add("Add", {scaled, per_channel(node, 2, "beta", x)});
  const std::int64_t activation = node.attr_int("activation");
  if (activation != 0 && activation != 1)
    node.invalid("attribute 'activation' is {}, not 0 (none) or 1 (SiLU)", activation);
  return activation == 1 ? node.add("Silu", {y}) : y;
}

void microsoft_group_norm(NodeContext& node) {
  const ValueId x = node.x();
  require_spatial(node, x);
  if (!has_channels_last(node)) return node.output(group_norm(node, x));
  node.output(channels_last(node, group_norm(node, channels_first(node, x))));
}

/// Input 3, skip, in a shape that broadcasts to x [N, C, spatial..]: x's shape and layout, or one
/// number per channel, [N, C] or with dimensions of 1.
ValueId read_skip(NodeContext& node, ValueId x, bool last) {
  ValueId skip = node.input(3, "skip");
  const Shape shape = node.shape(x);
  Shape one(shape.size(), Dim(1));
  one[0] = shape[0];
  one[1] = shape[1];
  if (node.rank(skip) == 2) {
    check_shape(node, skip, "skip", {shape[0], shape[1]});
    return node.reshape(skip, one);
  }
  if (last) skip = channels_first(node, skip);
  const Shape found = node.shape(skip);
  const bool is_one = found.size() == shape.size() && found.back() == Dim(1);
  check_shape(node, skip, "skip", is_one ? one : shape);
  return skip;
}

/// GroupNorm of x + skip + bias, which is also output 1.
void skip_group_norm(NodeContext& node) {
  ValueId x = node.x();
  require_spatial(node, x);
  const bool last = has_channels_last(node);
  if (last) x = channels_first(node, x);
  ValueId sum = node.add("Add", {x, read_skip(node, x, last)});
  if (node.has_input(4)) sum = node.add("Add", {sum, per_channel(node, 4, "bias", x)});
  const ValueId y = group_norm(node, sum);
  node.output(0, last ? channels_last(node, y) : y);
  node.output(1, last ? channels_last(node, sum) : sum);
}

}  // namespace

const OpRows kMicrosoftNormalisationOps = {
    {"SkipLayerNormalization", 1, skip_layer_normalization, "epsilon", kMicrosoft},
    {"SkipSimplifiedLayerNormalization", 1, skip_simplified_layer_normalization, "epsilon",
     kMicrosoft},
    {"EmbedLayerNormalization", 1, embed_layer_normalization, "epsilon mask_index_type",
     kMicrosoft},
    {"QEmbedLayerNormalization", 1, quantized_embed_layer_normalization, "epsilon", kMicrosoft,
     Types::kIntegers},
    {"GroupNorm", 1, microsoft_group_norm, "activation channels_last epsilon groups", kMicrosoft},
    {"SkipGroupNorm", 1, skip_group_norm, "activation channels_last epsilon groups", kMicrosoft},
};

}  // namespace sinter::frontend
