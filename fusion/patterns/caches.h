// Caches: inputs of which the model gives a copy back that it has changed at places.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// What became of an input: the nodes from an output back to it, Scatters and views.
struct CacheHistory {
  ValueId input;
  std::vector<NodeId> nodes;  // the last first
};

/// That of `output`, if views and Scatters that replace elements make it of one value, and at least
/// one Scatter.
std::optional<CacheHistory> cache_history(const Graph& graph, ValueId output);

/// True if the views on the way leave every element where it was.
bool keeps_places(const Graph& graph, const CacheHistory& history, const TensorType& type);

/// True if the old value is read on the way to the new one alone, and the new one is used in the
/// same run: a model that only gives a changed tensor back need not mean to get it again.
bool is_cache(const Graph& graph, const CacheHistory& history);

/// The input whose last rows `output` has, with new ones behind them: elements taken of both at
/// places that are known when the model runs. The rows are used in the same run as well, and the
/// input for nothing else.
std::optional<ValueId> windowed_cache(const Graph& graph, ValueId output);

}  // namespace sinter::fusion
