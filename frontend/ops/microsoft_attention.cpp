// Rotary embeddings of com.microsoft. Source: ContribOperators.md of
// ONNX Runtime 1.2x.
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
    {"RotaryEmbedding", 1, microsoft_rotary_embedding,
     "interleaved is_packed_batching num_heads rotary_embedding_dim scale", kMicrosoft},
};

}  // namespace

std::span<const OpRow> microsoft_attention_ops() { return kMicrosoftAttentionOps; }

}  // namespace sinter::frontend
