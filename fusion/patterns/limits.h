// Masks that hide the keys behind a place that is known when the model runs: of a cache of fixed
// length, those that nothing has been put into yet.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace sinter::fusion {

/// Row i of the scores sees the keys before `operand` + `more`, where the operand broadcasts to
/// `shape`, which `views` bring to the mask's shape.
struct KeyLimits {
  ir::ValueId operand;
  std::int64_t more = 0;
  ir::Shape shape;
  std::vector<ir::NodeId> views;
};

/// Those that `mask`, seen through `views`, is a test of: a bool that is true for what is seen
/// (`negated`: for what is hidden), over scores of `keys` columns.
std::optional<KeyLimits> limits_of(const ir::Graph& graph, ir::ValueId mask,
                                   std::span<const ir::NodeId> views, const ir::Dim& keys,
                                   bool negated);

/// The limits as a tensor of the mask's shape, but for one column; `operand` is their operand.
ir::ValueId add_limits(ir::GraphBuilder& builder, const ir::Graph& graph, const KeyLimits& limits,
                       ir::ValueId operand);

}  // namespace sinter::fusion
