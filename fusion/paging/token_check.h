// Whether a decoder of many sequences computes token by token.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// Throws Error(kUnsupported) naming a node of `paged`, a graph that page_caches made, in which
/// tokens of one sequence meet those of another, or that counts them: all but its attention and
/// caches.
void check_tokens(const Graph& paged);

}  // namespace sinter::fusion
