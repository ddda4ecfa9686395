// SPDX-License-Identifier: Apache-2.0
// The experts of a mixture that tokens choose, spelled as the first of sorted scores.
#pragma once

#include <optional>
#include <string>

#include "fusion/context.h"

namespace sinter::fusion {

/// What one Route computes instead of an ArgSort and of what reads it.
struct TopChoices {
  std::int64_t chosen = 0;
  std::string scores;  // as of Route
  bool normalises = false;
  bool before_softmax = false;  // its logits are those of the Softmax that gives the scores
  ValueId shares;               // that the Route gives; invalid: nobody asks
};

/// `node` is an ArgSort of rows. Its scores may be a float32 Softmax; what takes them at its
/// indices may divide them by their sum, or be a Softmax of them.
std::optional<TopChoices> find_top_choices(const Graph& graph, const Node& node);

}  // namespace sinter::fusion
