// SPDX-License-Identifier: Apache-2.0
#include "fusion/passes/passes.h"
#include "fusion/recurrences/chunked_delta.h"
#include "fusion/recurrences/chunked_scan.h"
#include "fusion/recurrences/narrow_operands.h"
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
  for (const Node& node : graph.nodes()) {
    std::string why;
    auto found = chunked_scan(graph, node, why);
    if (!found && why.empty()) found = chunked_delta(graph, node, why);
    if (!found && why.empty()) continue;
    if (found && !has_kernel(context, graph.type(node.outputs[0]).dtype, *found)) {
      found.reset();
      why = "this target has no kernel for it: it stays as it is spelled, by chunks";
    }
    decide(context, node, node, found.has_value(),
           found ? "a recurrence over tokens, spelled by chunks"
                 : "no recurrence over tokens: " + why);
    context.decisions.back().sought = "LinearAttention";
    if (found) pieces.push_back(std::move(found->piece));
  }
  return narrow_recurrences(pieces.empty() ? graph : rebuild(graph, pieces), context);
}

}  // namespace sinter::fusion
