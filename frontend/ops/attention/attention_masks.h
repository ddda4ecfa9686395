// SPDX-License-Identifier: Apache-2.0
// Padding masks of com.microsoft's attention operators.
#pragma once

#include <string_view>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Sizes of the scores that a mask is for.
struct ScoreSizes {
  Dim batch, heads, queries, past, keys;  // keys: with those of the past
};

/// Mask `mask` (int32), which `what` names, as what is added to scores of `dtype`: attribute
/// "mask_filter_value" where a key is hidden. Its shape says what it holds:
///   [batch]                        keys of each sample, the rest is padding
///   [2 * batch]                    ends of the keys, and then their begins
///   [3 * batch + 2]                keys, and where the rows of each sample begin, which they must
///                                  do one behind the other
///   [batch, keys]                  0: hidden
///   [batch, queries, keys]         0: hidden
///   [batch, 1, longest, longest]   0: hidden, for all positions that there may ever be
ValueId padding_mask(NodeContext& node, ValueId mask, std::string_view what,
                     const ScoreSizes& sizes, DType dtype);

/// Input `i`, attention_bias, checked: [batch or 1, heads or 1, queries, keys].
ValueId attention_bias(NodeContext& node, std::size_t i, const ScoreSizes& sizes);

}  // namespace sinter::frontend
