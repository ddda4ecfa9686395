// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings of com.microsoft. Source: ContribOperators.md of ONNX Runtime 1.2x.
#include <cmath>

#include "frontend/ops/attention/attention_core.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

void refuse_attr(NodeContext& node, const char* name, std::int64_t plain) {
  if (const std::int64_t value = node.attr_int(name, plain); value != plain)
    node.unsupported("attribute '{}' is {}; export with {}", name, value, plain);
}

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
    node.invalid("cos_cache has {} positions, but there are {} tokens", rows, length);
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
    node.invalid("cos_cache must be [positions, angles], but is {}", node.type(cos));
  const Dim rows = node.shape(cos)[0], pairs = node.shape(cos)[1];
  check_shape(node, sin, "sin_cache", node.shape(cos));
  if (is_flat) x = split_heads(node, x, heads_to_rotate(node, x, turned, pairs));
  if (node.rank(x) != 4)
    node.invalid("input must have three or four dimensions, but is {}", node.type(x));
  const Dim size = turned != 0 ? Dim(turned) : node.shape(x)[3];
  if ((Dim(2) * pairs - size).is_constant() && Dim(2) * pairs != size)
    node.invalid("cos_cache is {}, which does not hold {} / 2 angles", node.type(cos), size);
  const ValueId positions = rotary_positions(node, x, rows);
  ValueId result = rotate(node, x, rows_at(node, cos, positions), rows_at(node, sin, positions),
                          node.attr_int("interleaved", 0) != 0);
  if (const double scale = node.attr_float("scale", 1); scale != 1)
    node.unsupported("attribute 'scale' is {}; export with 1", scale);
  node.output(is_flat ? merge_heads(node, result) : result);
}

}  // namespace

const OpRows kMicrosoftAttentionOps = {
    {"RotaryEmbedding", 1, microsoft_rotary_embedding,
     "interleaved is_packed_batching num_heads rotary_embedding_dim scale", kMicrosoft},
};

}  // namespace sinter::frontend
