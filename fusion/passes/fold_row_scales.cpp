// SPDX-License-Identifier: Apache-2.0
// Folds row scales into attention: keys and values that are 8-bit rows times scales are read
// directly; the dequantized rows are never stored.
#include <map>
#include <optional>

#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "ir/attention_inputs.h"
#include "ir/scaled_rows.h"

namespace sinter::fusion {
namespace {

/// views(cast(values) * scales), maybe followed by casts between floats.
struct ScaledOperand {
  ir::ScaledRows rows;
  std::vector<NodeId> views;  // from the rows on
  const Node* product = nullptr;
};

bool is_float_cast(const Graph& graph, const Node& node) {
  return node.op->name == "Cast" && is_arithmetic_float(graph.type(node.inputs[0]).dtype) &&
         is_arithmetic_float(graph.type(node.outputs[0]).dtype);
}

std::optional<ScaledOperand> scaled_operand(const Graph& graph, ValueId value) {
  ScaledOperand found;
  const Node* node = graph.producer(value);
  for (; node != nullptr; node = graph.producer(value)) {
    if (is_single_view(*node))
      found.views.insert(found.views.begin(), graph.value(value).producer);
    else if (!is_float_cast(graph, *node))
      break;
    value = node->inputs[0];
  }
  if (node == nullptr || node->op->name != "Mul") return std::nullopt;
  for (const std::size_t i : {0, 1}) {
    const Node* cast = graph.producer(node->inputs[i]);
    if (cast == nullptr || cast->op->name != "Cast") continue;
    const TensorType &rows = graph.type(cast->inputs[0]), &scales = graph.type(node->inputs[1 - i]);
    Shape wanted = rows.shape;
    if (!wanted.empty()) wanted.back() = 1;
    if (!ir::is_scaled_row_type(rows.dtype) || scales.dtype != ir::kRowScaleType ||
        scales.shape != wanted || graph.type(node->outputs[0]).shape != rows.shape)
      continue;
    found.rows = {cast->inputs[0], node->inputs[1 - i]};
    found.product = node;
    return found;
  }
  return std::nullopt;
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

Graph fold_row_scales(const Graph& graph, Context& context) {
  if (context.target.attention_scaled_rows.empty()) return graph;
  std::map<ValueId, ValueId> mapped;  // new ids of rows and scales, which are not replaced, by old
                                      // ids
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        for (std::size_t i = 0; i < node.inputs.size(); ++i) mapped[node.inputs[i]] = inputs[i];
        if (node.op->name != "Attention") return std::nullopt;
        const auto k = scaled_operand(old, node.inputs[1]), v = scaled_operand(old, node.inputs[2]);
        if (!k || !v) return std::nullopt;
        std::vector<TensorType> types = old.types(node.inputs);
        for (const auto& [operand, type] : {std::pair(&*k, &types[1]), std::pair(&*v, &types[2])})
          type->dtype = old.type(operand->rows.values).dtype;
        std::string why = attention_refusal(context.target, types);
        if (why.empty()) why = views_refusal(old, k->views);
        if (why.empty()) why = views_refusal(old, v->views);
        for (const ScaledOperand* operand : {&*k, &*v})
          decide(context, *operand->product, node, why.empty(),
                 why.empty() ? "attention reads rows of 8 bits and their scales" : why);
        if (!why.empty()) {
          context.notes.push_back(fmt::format(
              "the caches of '{}' are made floats in front of it: {}", describe(node), why));
          return std::nullopt;
        }
        std::vector<ValueId> operands(inputs.begin(), inputs.end());
        const auto of = [&](const ScaledOperand& operand, ValueId value) {
          return through_views(builder, old, mapped.at(value), operand.views);
        };
        operands[1] = of(*k, k->rows.values);
        operands[2] = of(*v, v->rows.values);
        const auto behind =
            operands.end() - static_cast<std::ptrdiff_t>(ir::operands_of_scores(node.attrs));
        operands.insert(behind, {of(*k, k->rows.scales), of(*v, v->rows.scales)});
        return builder.add_multi("Attention", std::move(operands), node.attrs, node.body);
      });
}

}  // namespace sinter::fusion
