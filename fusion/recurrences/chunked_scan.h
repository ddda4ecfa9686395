// SPDX-License-Identifier: Apache-2.0
// Layers with states of tokens that are spelled by chunks, as PyTorch's code of Mamba-2 does
// (arXiv:2405.21060, listing 1): products within each chunk, and a recurrence over chunks.
#pragma once

#include <optional>
#include <string>

#include "fusion/recurrences/sequences.h"

namespace sinter::fusion {

/// `node` as a LinearAttention, if it adds what a chunk's own tokens and the state before it give.
/// Otherwise `why` says what does not fit; empty if it is no such sum at all.
std::optional<FoundRecurrence> chunked_scan(const Graph& graph, const Node& node, std::string& why);

}  // namespace sinter::fusion
