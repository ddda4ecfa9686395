// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of multi-head latent attention: products of few numbers for each token.
#include "frontend/decoders/layer_writer.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Ints;
using ir::ValueId;

/// Rows of `heads` heads, each of which ends with `turned` rows: those first, elements that turn
/// together half of them apart, where the file has them side by side.
Ints turned_first(std::int64_t heads, std::int64_t size, std::int64_t turned, bool neighbours) {
  Ints order;
  const std::int64_t plain = size - turned, pairs = turned / 2;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t i = 0; i < turned; ++i) {
      const std::int64_t from = !neighbours ? i : i < pairs ? 2 * i : 2 * (i - pairs) + 1;
      order.push_back(head * size + plain + from);
    }
    for (std::int64_t i = 0; i < plain; ++i) order.push_back(head * size + i);
  }
  return order;
}

}  // namespace

std::array<ValueId, 3> LayerWriter::latent_heads(ValueId x, const Angles& angles,
                                                 std::size_t layer) {
  const LatentConfig& l = c_.latent;
  const std::int64_t heads = c_.heads, turned = l.turned, plain = c_.head_size - turned;
  const auto& [cos, sin] = angles;
  const Ints order = turned_first(heads, c_.head_size, turned, c_.rotates_neighbours);
  ValueId q;
  if (l.query_rank == 0) {
    q = linear(x, "attn_q", layer, heads * c_.head_size, c_.hidden, c_.qkv_bias, order);
  } else {
    const ValueId few = norm(linear(x, "attn_q_a", layer, l.query_rank, c_.hidden, c_.qkv_bias),
                             "attn_q_a_norm", layer, l.query_rank);
    q = linear(few, "attn_q_b", layer, heads * c_.head_size, l.query_rank, false, order);
  }
  q = w_.rotated(split(q, heads, c_.head_size), cos, sin);
  // The numbers that keys and values are made of, and a part of keys that all heads share.
  const Ints rows = turned_first(1, l.rank + turned, turned, c_.rotates_neighbours);
  const ValueId all =
      linear(x, "attn_kv_a_mqa", layer, l.rank + turned, c_.hidden, c_.qkv_bias, rows);
  const ValueId shared = w_.rotated(split(w_.part(all, 2, 0, turned), 1, turned), cos, sin);
  const ValueId few = norm(w_.part(all, 2, turned, l.rank), "attn_kv_a_norm", layer, l.rank);
  const ValueId both =
      split(linear(few, "attn_kv_b", layer, heads * (plain + c_.value_size), l.rank, false), heads,
            plain + c_.value_size);
  ir::Shape expanded = w_.shape(shared);
  expanded[1] = Dim(heads);
  const ValueId k = w_.b.add(
      "Concat",
      {w_.b.add("Expand", {shared}, {{"shape", std::move(expanded)}}), w_.part(both, 3, 0, plain)},
      {{"axis", std::int64_t{3}}});
  return {q, k, w_.part(both, 3, plain, c_.value_size)};
}

}  // namespace sinter::frontend
