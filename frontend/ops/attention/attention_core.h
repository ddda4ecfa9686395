// SPDX-License-Identifier: Apache-2.0
// Shared by all attention operators: their decomposition into simpler ones.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// [batch, length, heads * size] -> [batch, length, heads, size]; throws Error(kInvalidModel)
/// unless `heads` divides the last dimension.
ValueId by_head(NodeContext& node, ValueId x, std::int64_t heads);
/// by_head, but [batch, heads, length, size].
ValueId split_heads(NodeContext& node, ValueId x, std::int64_t heads);
/// The inverse of split_heads.
ValueId merge_heads(NodeContext& node, ValueId x);

/// softmax(mask(cap(scale * q k'))) v. With grouped queries, consecutive heads of q share a head of
/// k and v.
struct AttentionForm {
  ValueId q, k, v;  // [batch, heads, length, size]; k and v with their own heads and length
  double scale = 1;
  double softcap = 0;  // softcap * tanh(scores / softcap), if greater than 0
  /// Each broadcasts to [batch, heads of q, length of q, length of k]: bool (true: attend), or an
  /// additive mask.
  std::vector<ValueId> masks;
  /// Causal: row i sees the keys 0..i + *causal_offset.
  std::optional<Dim> causal_offset;
  /// With causal_offset: row i sees only the last `window` of these keys; 0: no limit.
  std::int64_t window = 0;
  /// Attention sinks [heads of q], if valid: scores in each row's softmax without a value.
  ValueId sink;
  std::optional<DType> softmax_type;  // default: the type of q
  bool zeros_if_hidden = false;       // result of rows whose keys are all hidden: zeros, else NaN
  /// Change scores and weights, both [batch, heads, length of q, length of k]; may be empty.
  std::function<ValueId(ValueId)> change_scores, change_weights;
};

/// Intermediate results, all [batch, heads, length of q, length of k], and the result.
struct AttentionStages {
  ValueId product, capped, masked, weights;
  ValueId y;  // [batch, heads, length of q, size of v]
};
AttentionStages attend(NodeContext& node, const AttentionForm& form);

/// 1 / sqrt(size of a head of `q` [batch, heads, length, size]).
double default_scale(NodeContext& node, ValueId q);
/// Attribute "scale", or default_scale() if it is missing or 0.
double read_scale(NodeContext& node, ValueId q);

/// Rotates pairs of elements in the last dimension of `x` [batch, heads, length, size] by angles
/// with cosines and sines [batch or 1, length, pairs]. The first 2 * pairs elements take part. A
/// pair's elements are adjacent if `interleaved`, else `pairs` apart.
ValueId rotate(NodeContext& node, ValueId x, ValueId cos, ValueId sin, bool interleaved);
/// Rows `positions` [batch, length] of a table [positions, pairs].
ValueId rows_at(NodeContext& node, ValueId table, ValueId positions);
/// first, first + 1, .. with shape [1, count].
ValueId positions_from(NodeContext& node, const Dim& first, const Dim& count);

/// Concatenates `past` and `x` along the length; `x` if there is no past.
ValueId append_to_cache(NodeContext& node, ValueId past, ValueId x);
/// Pads a cache [batch, heads, rows, size] with zeros to `length` rows.
ValueId lengthened(NodeContext& node, ValueId cache, const Dim& length);
/// Writes `rows` [batch, heads, count, size] to rows first[b], first[b] + 1, .. of a cache; `first`
/// is int64 [batch, 1].
ValueId put_rows(NodeContext& node, ValueId cache, ValueId rows, ValueId first);
/// Gathers rows `rows` [batch, count] of each sample of a cache.
ValueId take_rows(NodeContext& node, ValueId cache, ValueId rows);

}  // namespace sinter::frontend
