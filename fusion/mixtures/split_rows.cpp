// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/split_rows.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "fusion/mixtures/choices.h"
#include "fusion/mixtures/elements.h"
#include "fusion/mixtures/nodes.h"
#include "fusion/patterns/producer.h"
#include "fusion/regions/rebuild.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

using Selected = std::map<std::string, ValueId>;

/// The counts in Extents, by symbol.
Selected sizes_from_data(const Graph& graph) {
  Selected result;
  for (const Node& node : graph.nodes())
    if (node.op->name == "Extent")
      result.emplace(node.attrs.get_string("symbol"), node.inputs[0]);
  return result;
}

class SplitRows {
 public:
  SplitRows(const Graph& graph, const TargetTraits& target)
      : graph_(graph), target_(target), sizes_(sizes_from_data(graph)) {}

  void visit(const Node& node, std::span<const ValueId> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) new_.emplace(node.inputs[i], inputs[i]);
  }
  /// The result of a Concat of parts; nothing if it is another node.
  std::optional<ValueId> join(GraphBuilder& b, const Node& node) {
    const auto parts = find_parts(node);
    if (!parts) return std::nullopt;
    const Node& first = *parts->products[0];
    std::vector<ValueId> operands{new_.at(parts->rows)};
    for (std::size_t operand = 1; operand < first.inputs.size(); ++operand) {
      std::vector<ValueId> own;
      for (const Node* product : parts->products) own.push_back(product->inputs[operand]);
      operands.push_back(mixtures::stacked(b, graph_, own));
    }
    operands.push_back(grouped(b, parts->choices, std::ssize(parts->products))[1]);
    const auto format = ir::ProductFormats(first.attrs).w;
    return b.add("GroupedMatMul", std::move(operands),
                 format ? ir::product_attrs(*format) : Attrs{});
  }
  /// Indices that sort the choices of all tokens; nothing if it is another node.
  std::optional<ValueId> order(GraphBuilder& b, const Node& node) {
    if (node.op->name != "ArgSort" || node.attrs.get_int("descending") != 0 ||
        !counted_.contains(choices_behind(node.inputs[0])))
      return std::nullopt;
    const Shape& shape = graph_.type(node.inputs[0]).shape;
    if (shape.size() != 1 || graph_.type(node.outputs[0]).shape != shape) return std::nullopt;
    const ValueId choices = choices_behind(node.inputs[0]);
    const auto sorted = grouped(b, choices, *sorted_experts(graph_, choices));
    return mixtures::cast(b, sorted[0], graph_.type(node.outputs[0]).dtype);
  }
  /// Notes which choices are counted for parts.
  void find() {
    for (const Node& node : graph_.nodes())
      if (const auto parts = find_parts(node)) counted_.emplace(parts->choices, &node);
  }
  const Node* product_of(const Node& concat) const { return graph_.producer(concat.inputs[0]); }

 private:
  struct Parts {
    ValueId rows, choices;
    std::vector<const Node*> products;
  };

  /// Choices [tokens, k] behind views and casts.
  ValueId choices_behind(ValueId value) const {
    for (const Node* node = graph_.producer(value);
         node != nullptr && (node->op->name == "Reshape" || node->op->name == "Cast");
         node = graph_.producer(value))
      value = node->inputs[0];
    return value;
  }

  std::vector<ValueId> grouped(GraphBuilder& b, ValueId choices, std::int64_t experts) {
    const Shape& shape = graph_.type(choices).shape;
    const ValueId own = mixtures::cast(b, new_.at(choices), DType::kInt32);
    return b.add_multi("GroupByIndex", {mixtures::reshape(b, own, {shape[0] * shape[1]})},
                       {{"extent", Shape{Dim(experts + 1)}}});
  }

  std::optional<Parts> find_parts(const Node& node) const {
    if (node.op->name != "Concat" || node.attrs.get_int("axis") != 0 || node.inputs.size() < 2)
      return std::nullopt;
    Parts parts;
    Dim start(0);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Node* product = producer_of(graph_, node.inputs[i], "MatMul");
      const Node* slice =
          product != nullptr ? producer_of(graph_, product->inputs[0], "Slice") : nullptr;
      if (slice == nullptr || !fits(*product)) return std::nullopt;
      const Shape& part = graph_.type(slice->outputs[0]).shape;
      const Shape& rows = graph_.type(slice->inputs[0]).shape;
      if (i == 0) parts.rows = slice->inputs[0];
      const bool is_next = slice->inputs[0] == parts.rows && rows.size() == 2 &&
                           slice->attrs.get_dims("starts") == Shape{start, Dim(0)} &&
                           slice->attrs.get_ints("steps") == Ints{1, 1} && part[1] == rows[1];
      if (!is_next || !is_alike(*product, *graph_.producer(node.inputs[0]))) return std::nullopt;
      start += part[0];
      parts.products.push_back(product);
      if (i + 1 == node.inputs.size()) {
        if (start != rows[0]) return std::nullopt;
        continue;
      }
      const auto choices = counted(part[0], static_cast<std::int64_t>(i), std::ssize(node.inputs));
      if (!choices || (i > 0 && *choices != parts.choices)) return std::nullopt;
      parts.choices = *choices;
    }
    const Shape& chosen = graph_.type(parts.choices).shape;
    return graph_.type(parts.rows).shape[0] == chosen[0] * chosen[1] ? std::optional(parts)
                                                                     : std::nullopt;
  }

  /// A matmul by constant matrices, which the target has for groups.
  bool fits(const Node& product) const {
    const ir::ProductFormats formats(product.attrs);
    const DType type = graph_.type(product.inputs[0]).dtype;
    const std::string_view codes =
        formats.w ? std::string_view(formats.w->codes->name) : to_string(type);
    if (formats.x || graph_.type(product.outputs[0]).dtype != type ||
        target_.takes("GroupedMatMul", type, codes, formats.w.has_value()) == nullptr)
      return false;
    return std::all_of(product.inputs.begin() + 1, product.inputs.end(), [&](ValueId operand) {
      return graph_.is_constant(operand) && graph_.type(operand).shape.size() == 2;
    });
  }

  bool is_alike(const Node& product, const Node& first) const {
    for (std::size_t i = 1; i < product.inputs.size(); ++i)
      if (graph_.type(product.inputs[i]) != graph_.type(first.inputs[i])) return false;
    return product.inputs.size() == first.inputs.size() && product.attrs == first.attrs;
  }

  /// The choices [tokens, k] of which `size` counts those of `expert`.
  std::optional<ValueId> counted(const Dim& size, std::int64_t expert, std::int64_t experts) const {
    const auto symbol = size.as_symbol();
    const auto known = symbol ? sizes_.find(*symbol) : sizes_.end();
    if (known == sizes_.end()) return std::nullopt;
    ValueId value = known->second;
    // No less than 0, nor more than the rows that are left.
    if (const Node* node = producer_of(graph_, value, "Max");
        node != nullptr && splat_value(graph_, node->inputs[1]) == 0)
      value = node->inputs[0];
    if (const Node* node = producer_of(graph_, value, "Min")) value = node->inputs[0];
    Elements elements(graph_);
    std::vector<Dim> index(graph_.type(value).shape.size(), Dim(0));
    for (;;) {
      const auto place = elements.source(value, index);
      const Node* node = place ? graph_.producer(place->value) : nullptr;
      if (node == nullptr) return std::nullopt;
      if (node->op->name == "Cast" && is_integer(graph_.type(node->inputs[0]).dtype)) {
        value = node->inputs[0];
        index = place->index;
        continue;
      }
      if (node->op->name != "ReduceSum" || node->attrs.get_ints("axes") != Ints{0} ||
          place->index != std::vector<Dim>{Dim(expert)})
        return std::nullopt;
      value = node->inputs[0];
      break;
    }
    while (const Node* cast = producer_of(graph_, value, "Cast")) value = cast->inputs[0];
    const Node* marks = producer_of(graph_, value, "Scatter");
    if (marks == nullptr || !marks_indices(graph_, *marks)) return std::nullopt;
    const ValueId choices = marks->inputs[3];
    const Shape& chosen = graph_.type(choices).shape;
    const bool fits = graph_.type(value).shape[1] == Dim(experts) &&
                      sorted_experts(graph_, choices) == experts && chosen[1].is_constant();
    return fits ? std::optional(choices) : std::nullopt;
  }

  const Graph& graph_;
  const TargetTraits& target_;
  Selected sizes_;
  std::map<ValueId, ValueId> new_;
  std::map<ValueId, const Node*> counted_;  // by choices
};

}  // namespace

Graph with_joined_rows(const Graph& graph, Context& context) {
  SplitRows rows(graph, context.target);
  rows.find();
  return ir::rewrite(graph,
                     [&](GraphBuilder& b, const Graph&, const Node& node,
                         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                       rows.visit(node, inputs);
                       if (const auto order = rows.order(b, node)) return std::vector{*order};
                       const auto joined = rows.join(b, node);
                       if (!joined) return std::nullopt;
                       decide(context, *rows.product_of(node), node, true,
                              fmt::format("a mixture of {} experts: parts of sorted rows",
                                          node.inputs.size()));
                       context.decisions.back().sought = "GroupedMatMul";
                       return std::vector{*joined};
                     });
}

}  // namespace sinter::fusion
