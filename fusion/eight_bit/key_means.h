// Means of a cache's keys, which scores do not need.
#pragma once

#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Whether all that reads `cache`, behind views, are products over its rows whose results go
/// through scales and a mask to a Softmax over these rows: what is added to all rows alike that the
/// mask lets through then changes nothing. `path`: nodes of the cache's own way through the model,
/// which do not count as readers.
bool are_keys(const Graph& graph, ValueId cache, std::span<const NodeId> path);

/// Of each of `values`, rows that are put into a cache, the mean over the samples and the
/// dimensions that `reduced` says, of size 1 then; float32.
std::vector<Tensor> means_of_rows(const Graph& graph, const Calibration& calibration,
                                  std::span<const ValueId> values,
                                  const std::vector<std::vector<std::int64_t>>& reduced);

}  // namespace sinter::fusion
