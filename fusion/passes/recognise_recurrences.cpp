// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/recurrences/chunked_layers.h"
#include "fusion/recurrences/loop_layers.h"
#include "fusion/recurrences/narrow_operands.h"
#include "fusion/recurrences/token_layers.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

/// Whether the target has a kernel for a recurrence of `type`, as it will be lowered. Without one,
/// chunks are better than a loop over tokens.
bool has_kernel(const Context& context, DType type, const FoundRecurrence& found) {
  if (type == DType::kFloat32 && context.precision == Precision::kFloat16) type = DType::kFloat16;
  if (type == DType::kFloat32 && context.precision == Precision::kBFloat16) type = DType::kBFloat16;
  const ir::OperandFormats* const row =
      context.target.takes("LinearAttention", type, found.rule, false);
  return row != nullptr && ir::proves_le(found.keys, Dim(row->most));
}

}  // namespace

Graph recognise_recurrences(const Graph& graph, Context& context) {
  std::vector<Piece> pieces;
  const auto take = [&](const Node& node, FoundRecurrence found, const char* spelled) {
    const bool is_taken = has_kernel(context, found.type, found);
    decide(context, node, node, is_taken,
           is_taken ? fmt::format("a recurrence over tokens, spelled {}", spelled)
                    : fmt::format("no recurrence over tokens: this target has no kernel for it: it "
                                  "stays as it is spelled, {}",
                                  spelled));
    context.decisions.back().sought = "LinearAttention";
    if (is_taken) pieces.push_back(std::move(found.piece));
  };
  for (const Node& node : graph.nodes()) {
    std::string why;
    auto found = chunked_scan(graph, node, why);
    if (!found && why.empty()) found = chunked_delta(graph, node, why);
    if (found) {
      take(node, std::move(*found), "by chunks");
    } else if (!why.empty()) {
      decide(context, node, node, false, "no recurrence over tokens: " + why);
      context.decisions.back().sought = "LinearAttention";
    }
  }
  for (FoundChain& chain : token_layers(graph))
    take(*chain.node, std::move(chain.found), "token by token");
  for (FoundChain& loop : loop_layers(graph)) take(*loop.node, std::move(loop.found), "as a loop");
  return narrow_recurrences(pieces.empty() ? graph : rebuild(graph, pieces), context);
}

}  // namespace sinter::fusion
