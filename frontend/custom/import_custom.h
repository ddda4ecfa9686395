// SPDX-License-Identifier: Apache-2.0
// Nodes of operators that a user defines.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/model/custom_operator.h"
#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Imports the graph of the model at `path` on `inputs`; the values of its outputs, or nothing if
/// some of its nodes are not supported (they have been listed). Throws Error(kUsage) unless it has
/// as many inputs.
using ImportReference = std::function<std::optional<std::vector<ir::ValueId>>(
    const std::string& path, std::span<const ir::ValueId> inputs)>;

/// Imports `node` as `op` says: its values or its reference among the nodes around it, or a
/// CustomKernel that has them as its body. Throws Error(kInvalidModel) for inputs or attributes
/// that the operator does not take, Error(kUsage) for a definition that makes no sense of them.
void import_custom(NodeContext& node, const CustomOperator& op, const ImportReference& reference);

}  // namespace sinter::frontend
