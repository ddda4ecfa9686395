// SPDX-License-Identifier: Apache-2.0
// Scales of operands go behind what multiplies their codes, or beside them as operands of their
// own: nothing stores dequantized values.
#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/block_product.h"
#include "fusion/scales/narrow_maxima.h"
#include "fusion/scales/sunk_product.h"
#include "ir/attention_inputs.h"
#include "ir/scaled_rows.h"

namespace sinter::fusion {
namespace {

Graph sink_into_products(const Graph& graph, Context& context) {
  ConstantValues values(graph);
  const ScaleSink sink(graph, context.target, values);
  const BlockProducts block_products(graph, context.target, values);
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes()) {
    std::string refusal, block_refusal;
    std::string reason =
        "its operands stand for numbers of 8 bits, which are multiplied: scales and zero points "
        "come behind";
    bool found = true;
    if (auto block = block_products.find(node, block_refusal)) {
      pieces.push_back(block_products.piece(std::move(*block)));
      reason = "its operands are floats of 8 bits, whose products are scaled block by block of k";
    } else if (auto product = sink.find(node, refusal)) {
      if (!product->w)
        reason =
            "x stands for floats of 8 bits, which weights of 4 bits multiply: its scale is behind";
      pieces.push_back(sink.piece(std::move(*product)));
    } else {
      if (!block_refusal.empty()) refusal = block_refusal;
      if (refusal.empty()) continue;
      found = false;
      reason = "not a product of 8 bits: " + refusal;
    }
    const Node* x = graph.producer(node.inputs[0]);
    decide(context, x != nullptr ? *x : node, node, found, reason);
  }
  return pieces.empty() ? graph : rebuild(graph, pieces);
}

/// Keys or values of attention that are 8-bit rows with a scale each.
std::optional<QuantizedOperand> scaled_rows(const Graph& graph, ValueId value) {
  auto found = find_quantized_operand(graph, value);
  if (!found || found->zero || !found->scale || found->scale->views != found->views.size())
    return std::nullopt;
  const TensorType &rows = graph.type(found->values), &scales = graph.type(found->scale->value);
  Shape wanted = rows.shape;
  if (!wanted.empty()) wanted.back() = 1;
  if (!ir::is_scaled_row_type(rows.dtype) || scales.dtype != ir::kRowScaleType ||
      scales.shape != wanted)
    return std::nullopt;
  return found;
}

/// The node that multiplies the codes by their scales.
const Node& scaling_of(const Graph& graph, const QuantizedOperand& operand) {
  return graph.node(*std::ranges::find_if(
      operand.nodes, [&](NodeId id) { return graph.node(id).op->name == "Mul"; }));
}

/// Why `views` of rows cannot apply to their scales; empty if they can.
std::string views_refusal(const Graph& graph, const std::vector<NodeId>& views) {
  for (const NodeId id : views) {
    const Node& view = graph.node(id);
    const Shape &from = graph.type(view.inputs[0]).shape, &to = graph.type(view.outputs[0]).shape;
    const bool keeps_rows =
        (view.op->name == "Reshape" || view.op->name == "Expand") && from.back() == to.back();
    const bool moves_rows =
        view.op->name == "Transpose" &&
        view.attrs.get_ints("perm").back() + 1 == static_cast<std::int64_t>(from.size());
    if (!keeps_rows && !moves_rows)
      return "'" + describe(view) + "' does not leave the rows of the cache whole";
  }
  return "";
}

/// Applies the views to `value`, rows or their scales.
ValueId through_views(GraphBuilder& builder, const Graph& graph, ValueId value,
                      const std::vector<NodeId>& views) {
  const Dim width = builder.type(value).shape.back();
  for (const NodeId id : views) {
    const Node& view = graph.node(id);
    const GraphBuilder::OriginScope scope(builder, view.origins);
    if (view.op->name == "Transpose") {
      value = builder.add("Transpose", {value}, view.attrs);
      continue;
    }
    Shape shape = graph.type(view.outputs[0]).shape;
    shape.back() = width;
    value = builder.add(view.op->name, {value}, {{"shape", std::move(shape)}});
  }
  return value;
}

}  // namespace

Graph sink_scales(const Graph& graph, Context& context) {
  return sink_into_products(drop_requantization(narrow_maxima(graph, context)), context);
}

Graph sink_cache_scales(const Graph& graph, Context& context) {
  if (context.target.first_of("Attention", true) == nullptr) return graph;
  std::map<ValueId, ValueId> mapped;  // new ids of rows and scales, which are not replaced, by old
                                      // ids
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        for (std::size_t i = 0; i < node.inputs.size(); ++i) mapped[node.inputs[i]] = inputs[i];
        if (node.op->name != "Attention") return std::nullopt;
        const auto k = scaled_rows(old, node.inputs[1]), v = scaled_rows(old, node.inputs[2]);
        if (!k || !v) return std::nullopt;
        std::vector<TensorType> types = old.types(node.inputs);
        for (const auto& [operand, type] : {std::pair(&*k, &types[1]), std::pair(&*v, &types[2])})
          type->dtype = old.type(operand->values).dtype;
        std::string why = attention_refusal(context, types);
        if (why.empty()) why = views_refusal(old, k->views);
        if (why.empty()) why = views_refusal(old, v->views);
        for (const QuantizedOperand* operand : {&*k, &*v})
          decide(context, scaling_of(old, *operand), node, why.empty(),
                 why.empty() ? "attention reads rows of 8 bits and their scales" : why);
        if (!why.empty()) {
          context.notes.push_back(fmt::format(
              "the caches of '{}' are made floats in front of it: {}", describe(node), why));
          return std::nullopt;
        }
        std::vector<ValueId> operands(inputs.begin(), inputs.end());
        const auto of = [&](const QuantizedOperand& operand, ValueId value) {
          return through_views(builder, old, mapped.at(value), operand.views);
        };
        operands[1] = of(*k, k->values);
        operands[2] = of(*v, v->values);
        const auto behind =
            operands.end() - static_cast<std::ptrdiff_t>(ir::operands_of_scores(node.attrs));
        operands.insert(behind, {of(*k, k->scale->value), of(*v, v->scale->value)});
        return builder.add_multi("Attention", std::move(operands), node.attrs, node.body);
      });
}

}  // namespace sinter::fusion
