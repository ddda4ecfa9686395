// SPDX-License-Identifier: Apache-2.0
#include "fusion/sharding/rank_weights.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/ranks/rank_parts.h"
#include "ir/ranks/ranks.h"

namespace sinter::fusion {
namespace {

/// The part of a constant that each rank has.
struct Parts {
  std::int64_t axis = 0, size = 0;
  Ints starts;  // by rank
};

/// The ranks' parts of a constant if that is what `node` is.
std::optional<Parts> parts_of_constant(const Node& node, const Ints& shape, std::int64_t ranks) {
  if (node.op->name != "Slice") return std::nullopt;
  const auto &starts = node.attrs.get_dims("starts"), &sizes = node.attrs.get_dims("shape");
  std::optional<Parts> parts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (node.attrs.get_ints("steps")[d] != 1 || !sizes[d].is_constant()) return std::nullopt;
    if (starts[d] == Dim(0) && sizes[d] == Dim(shape[d])) continue;
    const auto symbols = starts[d].symbols();
    if (parts || symbols.size() != 1 || symbols[0] != ir::kRankSymbol) return std::nullopt;
    parts = Parts{static_cast<std::int64_t>(d), sizes[d].value(), {}};
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      parts->starts.push_back(starts[d].evaluate({{std::string(ir::kRankSymbol), rank}}));
  }
  return parts;
}

/// Smaller parts are read by the rank's number: one element would become a number in a kernel's
/// text, and a few may be equal on one rank alone, by which passes decide. Weights and their scales
/// are constants whatever their size: products have no others.
constexpr std::int64_t kFewest = 32;

bool is_of_scaled_weights(const Graph& graph, ValueId value) {
  return std::ranges::any_of(graph.users(value),
                             [&](ir::NodeId use) { return graph.node(use).attrs.has("w"); });
}

std::int64_t element_count(const TensorType& type) { return ir::element_count(type.shape).value(); }

}  // namespace

Graph with_weights_of_ranks(const Graph& graph, const std::shared_ptr<ir::ReadLog>& log) {
  const std::int64_t ranks = ir::rank_count(graph);
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId>) -> std::optional<std::vector<ValueId>> {
        if (node.inputs.empty() || !old.is_constant(node.inputs[0])) return std::nullopt;
        const Value& whole = old.value(node.inputs[0]);
        auto parts = parts_of_constant(node, whole.constant->shape(), ranks);
        if (!parts || (element_count(old.type(node.outputs[0])) < kFewest &&
                       !is_of_scaled_weights(old, node.outputs[0])))
          return std::nullopt;
        return std::vector{builder.constant(
            ir::rank_part(*whole.constant, parts->axis, std::move(parts->starts), parts->size, log),
            whole.name)};
      });
}

}  // namespace sinter::fusion
