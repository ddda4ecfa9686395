// SPDX-License-Identifier: Apache-2.0
#include "fusion/passes/passes.h"
#include "fusion/recurrences/chunked_delta.h"
#include "fusion/recurrences/chunked_scan.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

/// Whether the target has a kernel for the rule of a recurrence of `type`, as it will be lowered.
/// Without one, chunks are better than a loop over tokens.
bool has_kernel(const Context& context, DType type, std::string_view rule) {
  if (type == DType::kFloat32 && context.precision == Precision::kFloat16) type = DType::kFloat16;
  if (type == DType::kFloat32 && context.precision == Precision::kBFloat16) type = DType::kBFloat16;
  return context.target.takes("LinearAttention", type, rule, false) != nullptr;
}

}  // namespace

Graph recognise_recurrences(const Graph& graph, Context& context) {
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes()) {
    std::string why;
    auto piece = chunked_scan(graph, node, why);
    if (!piece && why.empty()) piece = chunked_delta(graph, node, why);
    if (!piece && why.empty()) continue;
    const bool is_delta = node.op->name == "Scatter";
    if (piece &&
        !has_kernel(context, graph.type(node.outputs[0]).dtype, is_delta ? "delta" : "linear")) {
      piece.reset();
      why = "this target has no kernel for it: it stays as it is spelled, by chunks";
    }
    decide(context, node, node, piece.has_value(),
           piece ? "a recurrence over tokens, spelled by chunks"
                 : "no recurrence over tokens: " + why);
    context.decisions.back().sought = "LinearAttention";
    if (piece) pieces.push_back(std::move(*piece));
  }
  return pieces.empty() ? graph : rebuild(graph, pieces);
}

}  // namespace sinter::fusion
