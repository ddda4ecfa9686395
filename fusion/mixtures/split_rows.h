// SPDX-License-Identifier: Apache-2.0
// Rows that were sorted by expert, cut into a part for each expert, and joined again behind their
// matmuls.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// Such parts are one grouped matmul, if the sizes of the parts are counts of choices; and choices
/// that are sorted are grouped.
Graph with_joined_rows(const Graph& graph, Context& context);

}  // namespace sinter::fusion
