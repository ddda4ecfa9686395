// Masks of attention: those that hide the keys behind each query, and those that hide the keys
// behind a place that is known when the model runs (of a cache of fixed length, those that nothing
// has been put into yet).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// What counts as minus infinity in a causal mask: no row is masked as a whole, and next to a score
/// above kHidden + 104 the weight of one below it is zero in float32.
constexpr double kHidden = -1e4;

/// If `mask` lets row i of scores [.., m, n] see the keys j <= i: 1; the keys j <= i + n - m: 2;
/// else 0. A bool mask is true for what is seen (`negated`: for what is hidden), a float mask zero
/// there and at most kHidden elsewhere. The mask is a constant, or a part of one, as exporters keep
/// it.
int causal_of(const Graph& graph, ValueId mask, const Shape& scores, bool negated);

/// Row i of the scores sees the keys before `operand` + `more`, where the operand broadcasts to
/// `shape`, which `views` bring to the mask's shape.
struct KeyLimits {
  ValueId operand;
  std::int64_t more = 0;
  Shape shape;
  std::vector<NodeId> views;
};

/// Those that `mask`, seen through `views`, is a test of: a bool that is true for what is seen
/// (`negated`: for what is hidden), over scores of `keys` columns.
std::optional<KeyLimits> limits_of(const Graph& graph, ValueId mask, std::span<const NodeId> views,
                                   const Dim& keys, bool negated);

/// The limits as a tensor of the mask's shape, but for one column; `operand` is their operand.
ValueId add_limits(GraphBuilder& builder, const Graph& graph, const KeyLimits& limits,
                   ValueId operand);

}  // namespace sinter::fusion
