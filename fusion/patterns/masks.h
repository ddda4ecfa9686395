// SPDX-License-Identifier: Apache-2.0
// Masks of attention: causal ones, and those that hide the keys from a run-time index on (unwritten
// rows of a cache of fixed length).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Threshold of minus infinity in a causal mask: no row is fully masked, and beside a score above
/// kHidden + 104 the weight of a score below kHidden is zero in float32.
constexpr double kHidden = -1e4;

/// 1 if `mask` lets row i of scores [.., m, n] see the keys j <= i; 2 for j <= i + n - m;
/// otherwise 0. A bool mask is true for visible keys (`negated`: for hidden ones); a float mask is
/// zero there and at most kHidden elsewhere. The mask is a constant or a part of one, as exporters
/// store it.
int causal_of(const Graph& graph, ValueId mask, const Shape& scores, bool negated);

/// Row i of the scores sees the keys before `operand` + `more`. The operand broadcasts to `shape`;
/// `views` convert that to the mask's shape.
struct KeyLimits {
  ValueId operand;
  std::int64_t more = 0;
  Shape shape;
  std::vector<NodeId> views;
};

/// The limits that `mask`, through `views`, tests: a bool that is true for visible keys (`negated`:
/// for hidden ones), over scores of `keys` columns.
std::optional<KeyLimits> limits_of(const Graph& graph, ValueId mask, std::span<const NodeId> views,
                                   const Dim& keys, bool negated);

/// The limits as a tensor of the mask's shape, with one column; `operand` is their operand.
ValueId add_limits(GraphBuilder& builder, const Graph& graph, const KeyLimits& limits,
                   ValueId operand);

}  // namespace sinter::fusion
