// What attention kernels take, and how they read their operands.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Why the target has no kernel for attention of inputs q, k, v[, mask] of these types; empty if it
/// has one.
std::string attention_refusal(const TargetTraits& target, std::span<const TensorType> inputs);

/// True if `value` [.., rows, columns], followed back through all its views within `graph`, is one
/// strided access for every batch index, if need be after splitting one batch dimension in two
/// (heads merged with the batch, queries that share keys). `contiguous`: columns must have
/// stride 1.
bool is_strided_rows(const Graph& graph, ValueId value, bool contiguous);

/// `value` followed back through as many views as leave it such an access.
struct FoldedViews {
  ValueId source;
  std::vector<NodeId> views;  // from the source on
};
FoldedViews fold_views(const Graph& graph, ValueId value, bool contiguous);

/// Transposes and reshapes that `value`'s only readers put it through, as far as it can be stored
/// in rows through them; a reshape at the end is left out, since it moves nothing.
std::vector<NodeId> stored_views(const Graph& graph, ValueId value);

}  // namespace sinter::fusion
