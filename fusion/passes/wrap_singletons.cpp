#include "fusion/passes/passes.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "sinter/error.h"

namespace sinter::fusion {
namespace {

std::string family_of(const Node& node) {
  switch (node.op->kind) {
    case OpKind::kPointwise:
    case OpKind::kView: return "pointwise";
    case OpKind::kReduce:
    case OpKind::kComposite: return "reduction";
    case OpKind::kIndexed:
      return node.op->scatter() ? "scatter" : node.op->scan() ? "scan" : "pointwise";
    case OpKind::kLibrary:
      if (is_matrix_product(node)) return "matmul";
      if (node.op->name == "Conv") return "conv";
      if (node.op->name == "Attention") return "attention";
      if (node.op->name == "ArgSort") return "sort";
      if (node.op->name == "Suppress") return "suppression";
      if (node.op->name == "SampleTokens") return "sampling";
      if (node.op->name == "TreeEnsemble") return "trees";
      if (node.op->name == "Recurrent") return "recurrent";
      if (node.op->name == "CustomKernel") return "custom";
      if (node.op->name == "HostOperator") return "host";
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
    pieces.push_back(body_piece(family_of(node), body, results, node.outputs));
  }
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
