// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "fusion/passes/passes.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/quantization.h"
#include "ir/attention_inputs.h"

namespace sinter::fusion {
namespace {

// Results are multiplied by its inverse, a float32.
constexpr double kLeastScale = 0x1p-100;

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
      result = body.builder().add_multi("Attention", inputs, node.attrs, node.body)[0];
    }
    ValueId stored = node.outputs[0];
    const auto store_through = [&] {
      bool any = false;
      for (const NodeId view : stored_views(graph_, stored)) {
        decide(context_, node, graph_.node(view), true, "the result is stored through it");
        result = add_view(body, view, result);
        stored = graph_.node(view).outputs[0];
        any = true;
      }
      return any;
    };
    bool has_views = store_through();
    for (auto narrowed = narrowing(node, stored); narrowed.valid();
         narrowed = narrowing(node, stored)) {
      decide(context_, node, graph_.node(narrowed), true, "the result is scaled as it is stored");
      result = add_scalar_step(body, narrowed, result);
      stored = graph_.node(narrowed).outputs[0];
      has_views = store_through() || has_views;
    }
    if (const auto nodes = quantization(stored); !nodes.empty()) {
      const Node& last = graph_.node(nodes.back());
      decide(context_, node, last, true, "the result is stored in 8 bits");
      result = add_quantization(body, nodes, result);
      stored = last.outputs[0];
      // Heads may also be transposed after it.
      if (!has_views) store_through();
    }
    return body_piece("attention", body, std::array{result}, {stored});
  }

  /// The only reader of `stored`, a result of 8-bit operands, if it scales it by a number or casts
  /// it to 16 bits; otherwise none.
  NodeId narrowing(const Node& attention, ValueId stored) const {
    const bool is_wide = ir::is_eight_bit_attention(graph_.type(attention.inputs[0]).dtype) &&
                         graph_.type(stored).dtype == DType::kFloat32;
    if (!is_wide || graph_.is_output(stored) || graph_.users(stored).size() != 1) return {};
    const NodeId id = graph_.users(stored)[0];
    const Node& reader = graph_.node(id);
    const bool scales = reader.op->name == "Mul" && reader.inputs[0] == stored &&
                        known_number(graph_, reader.inputs[1]).has_value();
    const DType to = graph_.type(reader.outputs[0]).dtype;
    const bool narrows =
        reader.op->name == "Cast" && (to == DType::kFloat16 || to == DType::kBFloat16);
    return scales || narrows ? id : NodeId{};
  }

  /// The chain of sole readers of `stored` that quantizes it with one scale; empty for other
  /// readers, or if the target's attention does not support it.
  std::vector<NodeId> quantization(ValueId stored) const {
    // Generated kernels round in their stores; the runtime's own attention ends with the result.
    if (!context_.target.attention ||
        context_.target.attention_steps.contains(graph_.type(stored).dtype))
      return {};
    std::vector<NodeId> nodes;
    ValueId value = stored, wide = stored;
    while (graph_.users(value).size() == 1 && !graph_.is_output(value)) {
      const NodeId id = graph_.users(value)[0];
      const Node& reader = graph_.node(id);
      nodes.push_back(id);
      if (const auto found = quantization_of(graph_, reader))
        return found->x == wide && found->scale >= kLeastScale ? nodes : std::vector<NodeId>();
      const bool is_whole =
          reader.op->name == "Reshape" ||
          (reader.op->name == "Cast" && graph_.type(reader.outputs[0]).dtype == DType::kFloat32);
      if (!is_whole && reader.op->kind != OpKind::kPointwise) return {};
      if (is_whole && wide == value) wide = reader.outputs[0];
      value = reader.outputs[0];
    }
    return {};
  }

  ValueId add_quantization(BodyBuilder& body, std::span<const NodeId> nodes, ValueId value) {
    for (const NodeId id : nodes) value = add_scalar_step(body, id, value);
    return value;
  }

  /// A node whose operands other than the first are known numbers.
  ValueId add_scalar_step(BodyBuilder& body, NodeId id, ValueId value) {
    const Node& node = graph_.node(id);
    body.origins().insert(body.origins().end(), node.origins.begin(), node.origins.end());
    GraphBuilder::OriginScope scope(body.builder(), node.origins);
    std::vector<ValueId> inputs{value};
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      inputs.push_back(body.builder().scalar(graph_.type(node.inputs[i]).dtype,
                                             *known_number(graph_, node.inputs[i])));
    return body.builder().add(node.op->name, inputs, node.attrs);
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
