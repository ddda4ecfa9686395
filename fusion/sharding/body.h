// SPDX-License-Identifier: Apache-2.0
// Bodies of nodes that are split: what computes the scores of a rank's heads.
#pragma once

#include <memory>
#include <span>

#include "fusion/sharding/split.h"

namespace sinter::fusion {

/// `body` for inputs that are split so and a first output split as the first input, without
/// collectives; null if it has nodes that join what ranks have.
std::shared_ptr<const Graph> body_of_rank(const Graph& body, std::span<const Split> inputs,
                                          Ranks ranks);

}  // namespace sinter::fusion
