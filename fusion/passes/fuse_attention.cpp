#include <array>

#include "fusion/passes/passes.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

class AttentionFuser {
 public:
  AttentionFuser(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    std::vector<Piece> pieces;
    for (const Node& node : graph_.nodes())
      if (node.op->name == "Attention") pieces.push_back(fuse(node));
    return rebuild(graph_, pieces);
  }

 private:
  Piece fuse(const Node& node) {
    BodyBuilder body(graph_, BodyBuilder::Literals::kNone);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const FoldedViews folded = fold_views(graph_, node.inputs[i], i < 3);
      ValueId value = body.import(folded.source);
      for (const NodeId view : folded.views) {
        decide(context_, graph_.node(view), node, true, "an access of the attention's operand");
        value = add_view(body, view, value);
      }
      const Node* left = graph_.producer(folded.source);
      if (left != nullptr && left->op->kind == OpKind::kView && left->op->name != "Reshape")
        decide(context_, *left, node, false,
               i < 3 ? "its rows would not be strided with contiguous columns"
                     : "the mask would not be strided");
      inputs.push_back(value);
    }
    body.origins().insert(body.origins().end(), node.origins.begin(), node.origins.end());
    ValueId result;
    {
      GraphBuilder::OriginScope scope(body.builder(), node.origins);
      result = body.builder().add("Attention", inputs, node.attrs);
    }
    ValueId stored = node.outputs[0];
    for (const NodeId view : stored_views(graph_, stored)) {
      decide(context_, node, graph_.node(view), true, "the result is stored through it");
      result = add_view(body, view, result);
      stored = graph_.node(view).outputs[0];
    }
    return body_piece("attention", body, std::array{result}, {stored});
  }

  ValueId add_view(BodyBuilder& body, NodeId id, ValueId value) {
    const Node& view = graph_.node(id);
    body.origins().insert(body.origins().end(), view.origins.begin(), view.origins.end());
    GraphBuilder::OriginScope scope(body.builder(), view.origins);
    return body.builder().add(view.op->name, {value}, view.attrs);
  }

  const Graph& graph_;
  Context& context_;
};

}  // namespace

Graph fuse_attention(const Graph& graph, Context& context) {
  return AttentionFuser(graph, context).run();
}

}  // namespace sinter::fusion
