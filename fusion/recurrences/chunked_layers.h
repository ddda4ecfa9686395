// SPDX-License-Identifier: Apache-2.0
// Layers with states of tokens that are spelled by chunks. Each function gives a node as a
// LinearAttention; otherwise `why` says what does not fit, empty if it is nothing of the kind.
#pragma once

#include <optional>
#include <string>

#include "fusion/recurrences/sequences.h"

namespace sinter::fusion {

/// As PyTorch's code of Mamba-2 does (arXiv:2405.21060, listing 1), with products within each chunk
/// and a recurrence over chunks: a `node` that adds what a chunk's own tokens and the state before
/// it give.
std::optional<FoundRecurrence> chunked_scan(const Graph& graph, const Node& node, std::string& why);

/// The gated delta rule, as PyTorch's code of Qwen3-Next does, with a triangular system that is
/// solved row by row and a loop over chunks, both unrolled: a `node`, a Scatter, that stores the
/// outputs of the last chunk; with the last state if that is read.
std::optional<FoundRecurrence> chunked_delta(const Graph& graph, const Node& node,
                                             std::string& why);

}  // namespace sinter::fusion
