// SPDX-License-Identifier: Apache-2.0
// Loop: unrolled at import, or a loop of the plan.
#pragma once

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// The importer of Loop.
void loop(NodeContext& node);

}  // namespace sinter::frontend
