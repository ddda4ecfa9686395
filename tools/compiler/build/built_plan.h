// SPDX-License-Identifier: Apache-2.0
// A compiled plan and a model's inputs as the runtime sees them.
#pragma once

#include <vector>

#include <sinter/plan.h>

#include "codegen/compile.h"
#include "ir/graph.h"

namespace sinter::tools {

/// The plan as the runtime sees it after writing and reading.
Plan load_built(const codegen::CompiledPlan& plan);

/// Inputs of an imported graph, described as a plan's are.
std::vector<BindingInfo> describe_inputs(const ir::Graph& graph);

}  // namespace sinter::tools
