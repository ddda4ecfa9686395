// SPDX-License-Identifier: Apache-2.0
// Checks that a decoder of many sequences computes token by token.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// Throws Error(kUnsupported) that names a node of `paged`, a graph from page_caches, which mixes
/// tokens of different sequences or counts them. Attention and caches are exempt.
void check_tokens(const Graph& paged);

}  // namespace sinter::fusion
