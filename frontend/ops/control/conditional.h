// SPDX-License-Identifier: Apache-2.0
// If: decided at import, computed on both sides and selected, or a branch of the plan.
#pragma once

#include <optional>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// The value of a condition, if it is known at compile time.
std::optional<bool> known_condition(NodeContext& node, ValueId condition);

/// The only dimension in which two tensors differ; nullopt for none or several.
std::optional<std::size_t> only_difference(const ir::TensorType& a, const ir::TensorType& b);

/// The importer of If.
void if_then_else(NodeContext& node);

}  // namespace sinter::frontend
