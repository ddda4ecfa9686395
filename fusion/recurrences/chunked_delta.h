// SPDX-License-Identifier: Apache-2.0
// The gated delta rule, spelled by chunks as PyTorch's code of Qwen3-Next does: a triangular system
// that is solved row by row, and a loop over chunks, both unrolled.
#pragma once

#include <optional>
#include <string>

#include "fusion/recurrences/sequences.h"

namespace sinter::fusion {

/// `node`, a Scatter that stores the outputs of the last chunk, as a LinearAttention, with the last
/// state if that is read. Otherwise `why` says what does not fit; empty if it is nothing of the
/// kind.
std::optional<FoundRecurrence> chunked_delta(const Graph& graph, const Node& node,
                                             std::string& why);

}  // namespace sinter::fusion
