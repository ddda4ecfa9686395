// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings of com.microsoft. Source: ContribOperators.md of ONNX Runtime 1.2x.
#include <cmath>
#include <functional>

#include "frontend/ops/attention/attention_core.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

/// The number of heads of x [batch, length, heads * size], from the attributes or from the rotated
/// size.
std::int64_t heads_to_rotate(NodeContext& node, ValueId x, std::int64_t turned, const Dim& pairs) {
  if (const std::int64_t heads = node.attr_int("num_heads", 0); heads != 0) return heads;
  if (turned != 0)
    node.invalid(
        "attribute 'rotary_embedding_dim' needs 'num_heads' with inputs of three dimensions");
  const auto count = ir::divide_exactly(node.shape(x)[2], Dim(2) * pairs);
  if (!count || !count->is_constant())
    node.invalid("{} is not made of heads of size {}", node.type(x), Dim(2) * pairs);
  return count->value();
}

/// position_ids as [batch, length]. A single position is the first token's.
ValueId rotary_positions(NodeContext& node, ValueId x, const Dim& rows) {
  ValueId positions = node.input(1, "position_ids");
  if (node.rank(positions) == 0) positions = node.reshape(positions, {Dim(1)});
  const Dim batch = node.shape(x)[0], length = node.shape(x)[2];
  check_dtype(node, positions, "position_ids", {DType::kInt64});
  if (node.rank(positions) != 1) {
    check_shape(node, positions, "position_ids", {batch, length});
    node.check_indices(positions, rows);
    return positions;
  }
  check_shape(node, positions, "position_ids", {Dim(1)});
  if (rows.is_constant() && length.is_constant() && length.value() > rows.value())
    node.invalid("cos_cache has {} positions, but there are {} tokens", rows, length);
  return node.add("Add", {positions, positions_from(node, 0, length)});
}

/// Rows of a table of angles [positions, pairs] as [batch, length, pairs].
using Angles = std::function<ValueId(ValueId table, ValueId x)>;

/// Inputs input, position_ids, cos_cache, sin_cache.
void rotate_by_tables(NodeContext& node, const Angles& angles) {
  // ignores 'is_packed_batching', which lets there be more tokens than positions
  ValueId x = node.input(0, "input");
  const ValueId cos = node.input(2, "cos_cache"), sin = node.input(3, "sin_cache");
  const bool is_flat = node.rank(x) == 3;
  const std::int64_t turned = node.attr_int("rotary_embedding_dim", 0);
  if (node.rank(cos) != 2)
    node.invalid("cos_cache must be [positions, angles], but is {}", node.type(cos));
  const Dim rows = node.shape(cos)[0], pairs = node.shape(cos)[1];
  check_shape(node, sin, "sin_cache", node.shape(cos));
  if (is_flat) x = split_heads(node, x, heads_to_rotate(node, x, turned, pairs));
  if (node.rank(x) != 4)
    node.invalid("input must have three or four dimensions, but is {}", node.type(x));
  const Dim size = turned != 0 ? Dim(turned) : node.shape(x)[3];
  if ((Dim(2) * pairs - size).is_constant() && Dim(2) * pairs != size)
    node.invalid("cos_cache is {}, which does not hold {} / 2 angles", node.type(cos), size);
  ValueId result =
      rotate(node, x, angles(cos, x), angles(sin, x), node.attr_int("interleaved", 0) != 0);
  if (const double scale = node.attr_float("scale", 1); scale != 1)
    node.unsupported("attribute 'scale' is {}; export with 1", scale);
  node.output(is_flat ? merge_heads(node, result) : result);
}

void microsoft_rotary_embedding(NodeContext& node) {
  rotate_by_tables(node, [&](ValueId table, ValueId x) {
    return rows_at(node, table, rotary_positions(node, x, node.shape(table)[0]));
  });
}

/// Which of a token's three positions (time, height, width) each pair turns by. In sections, or
/// every third pair height's and width's as long as their sections last.
Ints streams_of_pairs(NodeContext& node, std::int64_t pairs) {
  const auto sections = node.attr_ints("mrope_section");
  if (!sections || sections->size() != 3) node.invalid("mrope_section must be three numbers");
  for (const std::int64_t section : *sections)
    if (section < 0 || section > pairs) node.invalid("mrope_section has {} of {}", section, pairs);
  if ((*sections)[0] + (*sections)[1] + (*sections)[2] != pairs)
    node.invalid("mrope_section [{}, {}, {}] does not sum to {} pairs", (*sections)[0],
                 (*sections)[1], (*sections)[2], pairs);
  const std::int64_t layout = node.attr_int("mrope_layout", 0);
  if (layout != 0 && layout != 1)
    node.invalid("attribute 'mrope_layout' is {}, not 0 or 1", layout);
  Ints streams;
  for (std::int64_t p = 0; p < pairs; ++p) {
    const std::int64_t third = p % 3;
    streams.push_back(
        layout == 1
            ? (third != 0 && p < 3 * (*sections)[static_cast<std::size_t>(third)] ? third : 0)
        : p < (*sections)[0]                  ? 0
        : p < (*sections)[0] + (*sections)[1] ? 1
                                              : 2);
  }
  return streams;
}

/// position_ids are [3, batch, length].
void multimodal_rotary_embedding(NodeContext& node) {
  const ValueId positions = node.input(1, "position_ids");
  check_dtype(node, positions, "position_ids", {DType::kInt64});
  rotate_by_tables(node, [&](ValueId table, ValueId x) {
    const Dim pairs = node.shape(table)[1], batch = node.shape(x)[0], length = node.shape(x)[2];
    check_shape(node, positions, "position_ids", {Dim(3), batch, length});
    if (!pairs.is_constant()) node.unsupported("cos_cache has a symbolic number of angles");
    node.check_indices(positions, node.shape(table)[0]);
    const ValueId streams = node.builder().constant(ir::Tensor::from_ints(
        DType::kInt64, {pairs.value()}, streams_of_pairs(node, pairs.value())));
    const ValueId by_pair = node.add("Gather", {positions, streams}, {{"axis", std::int64_t{0}}});
    const Term at(node, node.transpose(by_pair, {1, 2, 0}));
    return take(Term(node, table), {at, iota(node, pairs, 2, 3)}).value();
  });
}

}  // namespace

const OpRows kMicrosoftAttentionOps = {
    {"MRotaryEmbedding", 1, multimodal_rotary_embedding,
     "interleaved is_packed_batching mrope_layout mrope_section num_heads rotary_embedding_dim "
     "scale",
     kMicrosoft},
    {"RotaryEmbedding", 1, microsoft_rotary_embedding,
     "interleaved is_packed_batching num_heads rotary_embedding_dim scale", kMicrosoft},
};

}  // namespace sinter::frontend
