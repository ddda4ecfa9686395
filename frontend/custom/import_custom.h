// SPDX-License-Identifier: Apache-2.0
// Imports nodes of user-defined operators.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/model/custom_operator.h"
#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Imports the model at `path` as a graph over `inputs`. Returns the values of its outputs, or
/// nullopt if it has unsupported nodes (which are then listed). Throws Error(kUsage) if the number
/// of inputs differs.
using ImportReference = std::function<std::optional<std::vector<ir::ValueId>>(
    const std::string& path, std::span<const ir::ValueId> inputs)>;

/// Imports `node` by the definition `op`. The result is the definition's expressions or its
/// reference among the surrounding nodes, or a CustomKernel with these as its body. Throws
/// Error(kInvalidModel) for inputs or attributes that the operator does not accept, Error(kUsage)
/// for a definition that does not fit them.
void import_custom(NodeContext& node, const CustomOperator& op, const ImportReference& reference);

}  // namespace sinter::frontend
