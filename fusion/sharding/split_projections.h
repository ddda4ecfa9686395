// SPDX-License-Identifier: Apache-2.0
// Projections that a model has merged (queries, keys and values; gate and up): the parts of one
// matmul's columns are heads and channels of different values, which ranks do not share as equal
// runs of columns.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// `graph` with each Slice of columns of a matmul of constant weights, with or without a constant
/// bias behind it, as a matmul of these columns, if slices are all that reads it. What ranks then
/// have is merged again (passes/merge_projections).
Graph with_split_projections(const Graph& graph);

}  // namespace sinter::fusion
