// SPDX-License-Identifier: Apache-2.0
// Fuses a sum over ranks with the kernel that reads it, a residual and a norm mostly: small sums
// are computed where that loads them.
#include <optional>
#include <set>

#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"
#include "fusion/regions/result_reader.h"
#include "ir/ranks/ranks.h"

namespace sinter::fusion {
namespace {

std::optional<Piece> piece_of(const Graph& graph, const Node& sum, Context& context) {
  const ValueId result = sum.outputs[0];
  const std::vector<ResultReader> readers = result_readers(graph, result);
  for (const ResultReader& reader : readers) {
    const Node& rest = graph.node(reader.node);
    Verdict verdict = is_next(graph, sum, result, reader);
    if (verdict.ok && is_read_beside(graph, result, reader))
      verdict = {false, "another kernel reads the sum, too"};
    decide(context, sum, rest, verdict.ok,
           verdict.ok ? "what reads the sum computes it" : verdict.reason);
    if (!verdict.ok) continue;
    BodyBuilder body(graph, BodyBuilder::Literals::kNone);
    body.copy(sum);
    for (const NodeId reshape : reader.reshapes) body.copy(graph.node(reshape));
    body.copy(rest);
    std::vector<ValueId> stored;
    for (const ValueId output : rest.outputs) stored.push_back(body.import(output));
    return body_piece(std::string(ir::kCollectiveKernel), body, stored, rest.outputs);
  }
  return std::nullopt;
}

}  // namespace

Graph fuse_collectives(const Graph& graph, Context& context) {
  if (!context.target.generates_kernels) return graph;
  std::vector<Piece> pieces;
  std::set<const Node*> taken;
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "AllReduce" || node.attrs.get_string("combine") != "sum") continue;
    if (auto piece = piece_of(graph, node, context)) {
      // Of two sums that one kernel reads, that computes the first.
      if (taken.insert(graph.producer(piece->writes[0])).second)
        pieces.push_back(std::move(*piece));
    }
  }
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
