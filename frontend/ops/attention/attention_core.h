// SPDX-License-Identifier: Apache-2.0
// What every operator of attention comes down to, as compositions.
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

/// softmax(mask(cap(scale * q k'))) v. Where q has more heads than k and v, groups of neighbouring
/// heads of q share one.
struct AttentionForm {
  ValueId q, k, v;  // [batch, heads, length, size]; k and v with their own heads and length
  double scale = 1;
  double softcap = 0;  // softcap * tanh(scores / softcap), if positive
  /// Each broadcasts to [batch, heads of q, length of q, length of k]: bool (true: attend), or
  /// added.
  std::vector<ValueId> masks;
  /// Row i sees the keys 0..i + *causal_offset.
  std::optional<Dim> causal_offset;
  /// With causal_offset: and only the last `window` of them; 0 for no such limit.
  std::int64_t window = 0;
  /// Scores [heads of q] that take part in the softmax of every row but have no value, if valid.
  ValueId sink;
  std::optional<DType> softmax_type;  // that of q unless given
  bool zeros_if_hidden = false;       // what rows give whose every key is hidden: else NaN
  /// Rewrite scores and weights, both [batch, heads, length of q, length of k]; may be empty.
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
/// Attribute "scale" where it is given and not zero, or that.
double read_scale(NodeContext& node, ValueId q);

/// Turns pairs of elements of the last dimension of `x` [batch, heads, length, size] by angles
/// whose cosines and sines are [batch or 1, length, pairs]. The first 2 * pairs elements take part:
/// the two of a pair are neighbours if `interleaved`, else half of 2 * pairs apart.
ValueId rotate(NodeContext& node, ValueId x, ValueId cos, ValueId sin, bool interleaved);
/// Rows `positions` [batch, length] of a table [positions, pairs].
ValueId rows_at(NodeContext& node, ValueId table, ValueId positions);
/// first, first + 1, .. as [1, count].
ValueId positions_from(NodeContext& node, const Dim& first, const Dim& count);

/// `past` and then `x` along the dimension of length, or `x` if there is no past.
ValueId append_to_cache(NodeContext& node, ValueId past, ValueId x);
/// A cache [batch, heads, rows, size] of `length` rows, at least as many as it has: zeros follow.
ValueId lengthened(NodeContext& node, ValueId cache, const Dim& length);
/// A cache whose rows first[b], first[b] + 1, .. are `rows` [batch, heads, count, size]; `first` is
/// int64 [batch, 1].
ValueId put_rows(NodeContext& node, ValueId cache, ValueId rows, ValueId first);
/// Rows `rows` [batch, count] of each sample of a cache.
ValueId take_rows(NodeContext& node, ValueId cache, ValueId rows);

}  // namespace sinter::frontend
