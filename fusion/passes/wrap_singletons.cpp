// SPDX-License-Identifier: Apache-2.0
#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"
#include "sinter/error.h"

namespace sinter::fusion {
namespace {

/// The kind of a fused node of this alone.
std::string kind_of(const Node& node) {
  switch (node.op->kind) {
    case OpKind::kPointwise:
    case OpKind::kView: return "pointwise";
    case OpKind::kReduce:
    case OpKind::kComposite: return "reduction";
    case OpKind::kIndexed:
      return node.op->scatter() ? "scatter" : node.op->scan() ? "scan" : "pointwise";
    case OpKind::kLibrary:
      if (!node.op->kernel.empty()) return std::string(node.op->kernel);
      break;
    case OpKind::kFused:
    case OpKind::kWhile:
    case OpKind::kExtent: break;
  }
  throw Error(ErrorCode::kUnsupported, "'" + describe(node) + "' has no kernel kind");
}

}  // namespace

Graph wrap_singletons(const Graph& graph, Context&) {
  std::vector<Piece> pieces;
  for (const ir::Node& node : graph.nodes()) {
    const bool is_done = node.op->kind == OpKind::kFused || node.op->kind == OpKind::kWhile ||
                         node.op->kind == OpKind::kExtent;
    if (is_done || node.op->name == "Reshape") continue;
    BodyBuilder body(graph, node.op->kind == OpKind::kLibrary ? BodyBuilder::Literals::kNone
                                                              : BodyBuilder::Literals::kOneElement);
    std::vector<ValueId> results;
    if (node.op->kind == OpKind::kComposite) {
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(body.import(input));
      GraphBuilder::OriginScope scope(body.builder(), node.origins);
      results = node.op->composite().decompose(body.builder(), node, inputs);
      body.origins() = node.origins;
    } else {
      body.copy(node);
      for (ValueId output : node.outputs) results.push_back(body.import(output));
    }
    pieces.push_back(body_piece(kind_of(node), body, results, node.outputs));
  }
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
