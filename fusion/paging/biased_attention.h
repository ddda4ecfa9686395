// SPDX-License-Identifier: Apache-2.0
// Attention of a paged cache with a bias that the distance of a key decides.
#pragma once

#include <vector>

#include "fusion/context.h"
#include "fusion/paging/position_trials.h"

namespace sinter::fusion {

/// Adds an Attention with `attrs` whose scores are those of `node`, which has no program of its
/// own, and `bias`. `inputs` are all but the program's operands, `position` [tokens, 1] is each
/// token's.
ValueId add_biased_attention(GraphBuilder& builder, const Node& node, std::vector<ValueId> inputs,
                             ValueId position, Attrs attrs, const DistanceBias& bias);

}  // namespace sinter::fusion
