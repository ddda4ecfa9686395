// Graphs of the samples' sizes.
#pragma once

#include "fusion/context.h"
#include "ir/dim/dim.h"

namespace sinter::fusion {

/// The dimensions that the samples have. Throws Error(kUsage) if there are none, they differ, or
/// are no inputs of `graph`.
ir::Bindings sample_sizes(const Graph& graph, const Calibration& calibration);
/// `graph` with these numbers for its dimensions.
Graph with_sizes(const Graph& graph, const ir::Bindings& sizes);

}  // namespace sinter::fusion
