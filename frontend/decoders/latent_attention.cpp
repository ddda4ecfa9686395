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
  const std::int64_t heads = c_.heads, turned = l.turned;
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
  const auto [k_own, v] = heads_of(few, layer);
  ir::Shape expanded = w_.shape(shared);
  expanded[1] = Dim(heads);
  const ValueId k =
      w_.b.add("Concat", {w_.b.add("Expand", {shared}, {{"shape", std::move(expanded)}}), k_own},
               {{"axis", std::int64_t{3}}});
  return {q, k, v};
}

/// Keys' own part and values, by heads, of the numbers that they are made of.
std::array<ValueId, 2> LayerWriter::heads_of(ValueId few, std::size_t layer) {
  const std::int64_t heads = c_.heads, rank = c_.latent.rank, values = c_.value_size,
                     plain = c_.head_size - c_.latent.turned;
  const std::string keys = weights_.name("attn_k_b.weight", layer);
  if (!weights_.has(keys)) {
    const ValueId both =
        split(linear(few, "attn_kv_b", layer, heads * (plain + values), rank, false), heads,
              plain + values);
    return {w_.part(both, 3, 0, plain), w_.part(both, 3, plain, values)};
  }
  // llama.cpp's: a matrix for each head, those of keys [rank, plain].
  const std::string name = weights_.name("attn_v_b.weight", layer);
  const ValueId by_rank =
      w_.transpose(w_.b.constant(weights_.take_plain(keys, {heads, rank, plain}), keys), {1, 0, 2});
  const ValueId k = w_.add(
      "MatMul", few, w_.cast(w_.reshape(by_rank, {Dim(rank), Dim(heads * plain)}), w_.type()));
  StoredTensor matrices = weights_.take(name, {heads, values, rank});
  if (auto* one = std::get_if<ir::Tensor>(&matrices.value))
    *one = one->reshaped({heads * values, rank});
  matrices.shape = {heads * values, rank};
  return {split(k, heads, plain), split(w_.product(few, matrices, name), heads, values)};
}

}  // namespace sinter::frontend
