// SPDX-License-Identifier: Apache-2.0
// Padding masks of com.microsoft's attention operators.
#pragma once

#include <string_view>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Sizes of the masked scores.
struct ScoreSizes {
  Dim batch, heads, queries, past, keys;  // keys: including the past
};

/// Converts `mask` (int32), called `what` in errors, to an additive mask of `dtype`: attribute
/// "mask_filter_value" for hidden keys. Its shape determines its meaning:
///   [batch]                        number of keys per sample, the rest is padding
///   [2 * batch]                    ends of the keys, then their begins
///   [3 * batch + 2]                numbers of keys, then the begins of each sample's rows, which
///                                  must be consecutive
///   [batch, keys]                  0: hidden
///   [batch, queries, keys]         0: hidden
///   [batch, 1, longest, longest]   0: hidden, for all possible positions
ValueId padding_mask(NodeContext& node, ValueId mask, std::string_view what,
                     const ScoreSizes& sizes, DType dtype);

/// Input `i`, attention_bias, with checked shape [batch or 1, heads or 1, queries, keys].
ValueId attention_bias(NodeContext& node, std::size_t i, const ScoreSizes& sizes);

}  // namespace sinter::frontend
