// SPDX-License-Identifier: Apache-2.0
// Indices of the greatest scores, and what they choose.
#pragma once

#include <cstdint>
#include <optional>

#include "fusion/context.h"

namespace sinter::fusion {

/// The indices of the `count` greatest of `scores` along the last dimension, greatest first; of
/// equal ones, the first.
struct Greatest {
  ValueId scores;
  std::int64_t count = 0;
};
/// Nothing: `indices` are others. One index may be spelled as a minimum.
std::optional<Greatest> find_greatest(const Graph& graph, ValueId indices);
/// Whether `take` is data[i, .., indices[i, .., j]].
bool takes_at(const Graph& graph, const Node& take, ValueId indices);

/// Whether the Scatter puts ones at indices [tokens, ..] of rows of zeros.
bool marks_indices(const Graph& graph, const Node& scatter);

/// Scores of which those of some groups of experts are replaced by one number.
struct ExpertGroups {
  ValueId scores;  // [tokens, experts], before
  std::int64_t groups = 0, kept = 0, best = 0;
  bool zero_outside = false;  // else -infinity
};
/// `masked` keeps the scores of the `kept` groups with the greatest sums of their `best` greatest
/// scores.
std::optional<ExpertGroups> find_expert_groups(const Graph& graph, ValueId masked);

}  // namespace sinter::fusion
