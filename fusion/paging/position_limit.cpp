// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/position_limit.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ir/affine.h"

namespace sinter::fusion {
namespace {

/// The constant added to token positions in `value`; nothing for anything else.
std::optional<std::int64_t> added_to_positions(const Graph& graph, ValueId value) {
  std::int64_t added = 0;
  while (true) {
    if (const auto number = graph.input_number(value))
      return graph.value(value).name == paged_names::kPositions ? std::optional(added)
                                                                : std::nullopt;
    if (graph.is_constant(value)) return std::nullopt;
    const Node& node = graph.node(graph.value(value).producer);
    if (node.op->name == "Cast" || (node.op->kind == OpKind::kView && node.inputs.size() == 1)) {
      value = node.inputs[0];
      continue;
    }
    if (node.op->name != "Add") return std::nullopt;
    const bool is_first = graph.is_constant(node.inputs[0]);
    const auto& constant = graph.value(node.inputs[is_first ? 0 : 1]).constant;
    if (!constant || constant->element_count() != 1 || !is_integer(constant->dtype()))
      return std::nullopt;
    added += constant->at_int(0);
    value = node.inputs[is_first ? 1 : 0];
  }
}

/// Rows of `table` along `axis`, through views that lengthen or shorten it.
std::optional<std::int64_t> rows_of(const Graph& graph, ValueId table, std::size_t axis) {
  std::optional<std::int64_t> rows;
  const auto take = [&](const Dim& dim) {
    if (dim.is_constant()) rows = std::min(rows.value_or(dim.value()), dim.value());
  };
  const Shape& shape = graph.type(table).shape;
  take(shape[axis]);
  Ranges ranges = graph.ranges();
  const std::vector<Dim> index = ir::index_symbols(shape, ranges);
  const auto traced = ir::trace_to_source(graph, table, index, ranges);
  if (!traced) return rows;
  const Shape& source = graph.type(traced->source).shape;
  for (std::size_t d = 0; d < source.size(); ++d)
    if (const Dim skipped = ir::simplify(traced->index[d] - index[axis], ranges);
        skipped.is_constant())
      take(source[d] - skipped);
  return rows;
}

}  // namespace

std::optional<PositionLimit> position_limit(const Graph& paged) {
  std::optional<PositionLimit> limit;
  const auto look_at = [&](const Node& node, ValueId indices, std::size_t axis) {
    const auto added = added_to_positions(paged, indices);
    if (!added) return;
    const auto rows = rows_of(paged, node.inputs[0], axis);
    if (!rows) return;
    const std::int64_t most = *rows - *added;
    if (!limit || most < limit->most)
      limit = PositionLimit{most, paged.value(node.outputs[0]).producer};
  };
  for (const Node& node : paged.nodes()) {
    if (node.op->name == "Gather")
      look_at(node, node.inputs[1], static_cast<std::size_t>(node.attrs.get_int("axis")));
    if (node.op->name == "Take")
      for (std::size_t i = 1; i < node.inputs.size(); ++i) look_at(node, node.inputs[i], i - 1);
  }
  return limit;
}

}  // namespace sinter::fusion
