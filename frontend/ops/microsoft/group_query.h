// SPDX-License-Identifier: Apache-2.0
// What com.microsoft's attentions with grouped queries and caches share: GroupQueryAttention,
// SparseAttention, PagedAttention.
#pragma once

#include "frontend/ops/attention/attention_core.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {

/// Reads queries, keys and values by heads into `form`: from three inputs, or from one that has all
/// heads of queries, then those of keys and of values. The inputs are [batch, length, heads *
/// size]; `batched` makes others so.
void read_grouped_heads(NodeContext& node, AttentionForm& form,
                        const std::function<ValueId(ValueId)>& batched = {});

/// RMS-normalizes each head of queries and keys, if the weights, inputs `query` and `query` + 1,
/// are there.
void normalise_heads(NodeContext& node, AttentionForm& form, std::size_t query);

/// With attribute do_rotary: turns the heads of queries and keys by the rows `positions` [batch,
/// length] of the tables of inputs `cos` and `cos` + 1.
void turn_heads(NodeContext& node, AttentionForm& form, std::size_t cos, ValueId positions);

/// Number of tokens per sample, int64 [batch, 1], including this step's and before it. A prompt may
/// be padded at its end; then there are fewer than queries.
struct Lengths {
  Term after, before;
};
/// From `after` [batch], a number for each sample, of any integer type.
Lengths lengths_after(NodeContext& node, const Term& after, const Dim& batch, const Dim& rows);
/// Positions of the queries in their samples, [batch, queries].
Term places_of(NodeContext& node, const Lengths& lengths, const Dim& rows);

/// Inputs by index; the value's cache is behind the key's, the sines behind the cosines.
struct CacheInputs {
  std::size_t past_key, total, cos;
};
/// Puts the new rows of keys and values into caches that hold all tokens, and adds the masks of
/// what each query sees. `knows_positions`: the tables of angles do not limit the tokens.
void attend_to_all(NodeContext& node, AttentionForm& form, const Lengths& lengths,
                   const Term& places, const CacheInputs& inputs, bool knows_positions);

}  // namespace sinter::frontend
