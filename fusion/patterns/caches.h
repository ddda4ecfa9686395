// SPDX-License-Identifier: Apache-2.0
// Finds caches: inputs of which the model returns a copy with updated elements.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// The history of an input: the nodes from an output back to it, Scatters and views.
struct CacheHistory {
  ValueId input;
  std::vector<NodeId> nodes;  // last one first
};

/// The history of `output`, if views and replacing Scatters, at least one, compute it from one
/// value.
std::optional<CacheHistory> cache_history(const Graph& graph, ValueId output);

/// True if the views on the path leave every element at its index.
bool keeps_places(const Graph& graph, const CacheHistory& history, const TensorType& type);

/// True if only the update reads the old value, and the run uses the new one. A model that only
/// returns an updated tensor need not expect it as input again.
bool is_cache(const Graph& graph, const CacheHistory& history);

/// The input whose last rows, followed by new ones, are `output`: elements of both, at indices
/// computed at run time. The run also uses these rows, and does not use the input otherwise.
std::optional<ValueId> windowed_cache(const Graph& graph, ValueId output);

}  // namespace sinter::fusion
