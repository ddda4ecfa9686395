// SPDX-License-Identifier: Apache-2.0
// Graphs specialized to the samples' sizes.
#pragma once

#include "fusion/context.h"
#include "ir/dim/dim.h"

namespace sinter::fusion {

/// The dimensions of the samples. Throws Error(kUsage) if there are none, if they differ, or if
/// they do not fit the inputs of `graph`.
ir::Bindings sample_sizes(const Graph& graph, const Calibration& calibration);
/// `graph` with these numbers as dimensions.
Graph with_sizes(const Graph& graph, const ir::Bindings& sizes);

}  // namespace sinter::fusion
