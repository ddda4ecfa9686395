// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/narrow_operands.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

constexpr std::size_t kOperands = 3;  // queries, keys and values

/// The 16-bit type whose values `value` has, behind views.
std::optional<DType> widened_from(const Graph& graph, ValueId value) {
  for (const Node* node = graph.producer(value); node != nullptr; node = graph.producer(value)) {
    if (node->inputs.empty()) break;
    value = node->inputs[0];
    const DType type = graph.type(value).dtype;
    if (node->op->name == "Cast")
      return type == DType::kFloat16 || type == DType::kBFloat16 ? std::optional(type)
                                                                 : std::nullopt;
    if (node->op->kind != OpKind::kView) break;
  }
  return std::nullopt;
}

Piece narrowed(const Node& node, DType type) {
  Piece piece;
  piece.reads = node.inputs;
  piece.writes = node.outputs;
  piece.emit = [attrs = node.attrs, name = node.op->name, origins = node.origins, type](
                   GraphBuilder& b, std::span<const ValueId> given) {
    const GraphBuilder::OriginScope scope(b, origins);
    std::vector<ValueId> inputs(given.begin(), given.end());
    for (std::size_t i = 0; i < kOperands; ++i)
      inputs[i] = b.add("Cast", {inputs[i]}, {{"to", type}});
    std::vector<ValueId> results = b.add_multi(name, inputs, attrs);
    results[0] = b.add("Cast", {results[0]}, {{"to", DType::kFloat32}});
    return results;
  };
  return piece;
}

}  // namespace

Graph narrow_recurrences(const Graph& graph, Context& context) {
  if (!context.target.generates_kernels) return graph;
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "LinearAttention") continue;
    if (graph.type(node.inputs[0]).dtype != DType::kFloat32 ||
        node.attrs.get_string("rule") == "general_delta")  // which has no chunks
      continue;
    std::optional<DType> type;
    for (std::size_t i = 0; i < kOperands && !type; ++i) type = widened_from(graph, node.inputs[i]);
    if (!type) continue;
    decide(context, node, node, true,
           fmt::format("its operands are {} again, of which they are widened: chunks are products "
                       "of 16 bits",
                       to_string(*type)));
    pieces.push_back(narrowed(node, *type));
  }
  return pieces.empty() ? graph : rebuild(graph, pieces);
}

}  // namespace sinter::fusion
