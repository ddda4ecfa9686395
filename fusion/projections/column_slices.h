// SPDX-License-Identifier: Apache-2.0
// Slices of the last dimension, such as those of merged projections, moved to where they cost
// nothing.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// True if `node` gathers whole rows of its data, which end with `columns`: a slice of these is one
/// of what it gathers.
bool gathers_rows(const Graph& graph, const Node& node, const Dim& columns);

/// Gather(Slice(x)) becomes Slice(Gather(x)): what is gathered is read from memory, where a slice
/// would be a copy.
Graph slice_behind_gathers(const Graph& graph);

/// Slice(f(x)) becomes f(Slice(x)), for a chain f of pointwise operators that only disjoint slices
/// read, one of which is reduced: its kernel then computes what it reads, and the others' as well.
Graph split_sliced_chains(const Graph& graph);

}  // namespace sinter::fusion
