// SPDX-License-Identifier: Apache-2.0
// A compiled plan and a model's inputs as the runtime sees them.
#pragma once

#include <vector>

#include <sinter/plan.h>

#include "codegen/compile.h"
#include "ir/graph.h"

namespace sinter::tools {

/// Serializes and reloads the plan, as the runtime will read it.
Plan load_built(const codegen::CompiledPlan& plan);

/// Describes an imported graph's inputs in the form of a plan's.
std::vector<BindingInfo> describe_inputs(const ir::Graph& graph);

}  // namespace sinter::tools
