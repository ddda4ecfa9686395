// SPDX-License-Identifier: Apache-2.0
#include "fusion/passes/passes.h"
#include "fusion/recurrences/chunked_delta.h"
#include "fusion/recurrences/chunked_scan.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

Graph recognise_recurrences(const Graph& graph, Context& context) {
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes()) {
    std::string why;
    auto piece = chunked_scan(graph, node, why);
    if (!piece && why.empty()) piece = chunked_delta(graph, node, why);
    if (!piece && why.empty()) continue;
    decide(context, node, node, piece.has_value(),
           piece ? "a recurrence over tokens, spelled by chunks"
                 : "no recurrence over tokens: " + why);
    context.decisions.back().sought = "LinearAttention";
    if (piece) pieces.push_back(std::move(*piece));
  }
  return pieces.empty() ? graph : rebuild(graph, pieces);
}

}  // namespace sinter::fusion
