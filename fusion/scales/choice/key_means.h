// SPDX-License-Identifier: Apache-2.0
// Means of cached keys, which do not affect the softmax of scores.
#pragma once

#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Whether all readers of `cache`, possibly after views, are matmuls over its rows whose results
/// reach a Softmax over these rows through scales and a mask. Adding one vector to all unmasked
/// rows then changes nothing. `path`: nodes of the cache's own update, which do not count as
/// readers.
bool are_keys(const Graph& graph, ValueId cache, std::span<const NodeId> path);

/// For each of `values`, rows that are put into a cache: the mean over the samples and over the
/// dimensions `reduced`, which get size 1; float32.
std::vector<Tensor> means_of_rows(const Graph& graph, const Calibration& calibration,
                                  std::span<const ValueId> values,
                                  const std::vector<std::vector<std::int64_t>>& reduced);

}  // namespace sinter::fusion
