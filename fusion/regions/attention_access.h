// SPDX-License-Identifier: Apache-2.0
// Capabilities of attention kernels, and how they read operands.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Why the target has no kernel for attention of inputs q, k, v[, mask] of these types; empty if it
/// has one.
std::string attention_refusal(const Context& context, std::span<const TensorType> inputs);

/// True if `value` [.., rows, columns], traced through all its views in `graph`, is one strided
/// access for every batch index. One batch dimension may be split in two (heads merged with the
/// batch, queries that share keys). `contiguous`: columns must have stride 1.
bool is_strided_rows(const Graph& graph, ValueId value, bool contiguous);

/// `value` traced back through as many views as keep it such an access.
struct FoldedViews {
  ValueId source;
  std::vector<NodeId> views;  // from the source on
};
FoldedViews fold_views(const Graph& graph, ValueId value, bool contiguous);

/// Transposes and reshapes by sole readers of `value` through which it can be stored in rows; a
/// final reshape is left out, as it moves nothing.
std::vector<NodeId> stored_views(const Graph& graph, ValueId value);

}  // namespace sinter::fusion
