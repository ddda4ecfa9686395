// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/split_rows.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "fusion/mixtures/choices.h"
#include "fusion/mixtures/elements.h"
#include "fusion/mixtures/nodes.h"
#include "fusion/patterns/producer.h"
#include "fusion/regions/rebuild.h"
#include "ir/graph_checks.h"
#include "ir/mixture/expert_rows.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

using Selected = std::map<std::string, ValueId>;

/// The counts in Extents, by symbol.
Selected sizes_from_data(const Graph& graph) {
  Selected result;
  for (const Node& node : graph.nodes())
    if (node.op->name == "Extent") result.emplace(node.attrs.get_string("symbol"), node.inputs[0]);
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
    operands.push_back(rows_of(b, parts->choices).offsets);
    const auto format = ir::ProductFormats(first.attrs).w;
    return b.add("GroupedMatMul", std::move(operands),
                 format ? ir::product_attrs(*format) : Attrs{});
  }
  /// What a node does with indices that sort choices, by the grouped ones: indices themselves, rows
  /// that they take, a sum of each token's rows. Nothing if it is another node.
  std::optional<ValueId> follow(GraphBuilder& b, const Node& node) {
    const TensorType& type = graph_.type(node.outputs[0]);
    if (node.op->name == "ArgSort") {
      const auto sorted = sorting(node.outputs[0]);
      if (!sorted) return std::nullopt;
      return mixtures::cast(b, rows_of(b, sorted->choices).order, type.dtype);
    }
    // Counts of all experts are as many as choices.
    if (ir::is_size_check(node, graph_.ranges()) && counts_all(node))
      return b.scalar(DType::kInt64, 0);
    if (node.op->name == "Gather" && node.attrs.get_int("axis") == 0) {
      const auto taken = sorting(node.inputs[1]);
      if (!taken) return std::nullopt;
      const ir::ExpertRows rows = rows_of(b, taken->choices);
      const ValueId x = new_.at(node.inputs[0]);
      const ValueId result =
          taken->of_tokens ? ir::take_tokens(b, rows, x) : ir::take_choices(b, rows, x);
      return mixtures::reshape(b, result, type.shape);
    }
    return node.op->name == "Scatter" ? sum(b, node) : std::nullopt;
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

  ir::ExpertRows rows_of(GraphBuilder& b, ValueId choices) const {
    const ValueId own = mixtures::cast(b, new_.at(choices), DType::kInt32);
    return ir::sort_by_expert(b, own, *sorted_experts(graph_, choices));
  }

  /// Indices that sort choices, or the tokens of these.
  struct Sorting {
    ValueId choices;
    bool of_tokens = false;
  };
  std::optional<Sorting> sorting(ValueId value) const {
    bool of_tokens = false;
    std::int64_t divisor = 1;
    for (const Node* node = graph_.producer(value); node != nullptr;
         node = graph_.producer(value)) {
      const bool is_view = node->op->name == "Reshape" || node->op->name == "Cast" ||
                           (node->op->name == "Slice" &&
                            graph_.type(node->inputs[0]) == graph_.type(node->outputs[0]));
      if (is_view) {
        value = node->inputs[0];
        continue;
      }
      // A quotient of floats is rounded towards zero, in several nodes; that of integers is.
      if (const Node* quotient = whole_quotient(*node); quotient != nullptr && !of_tokens) {
        of_tokens = true;
        divisor = static_cast<std::int64_t>(*splat_value(graph_, quotient->inputs[1]));
        value = quotient->inputs[0];
        continue;
      }
      const Shape& shape = graph_.type(value).shape;
      if (node->op->name != "ArgSort" || node->attrs.get_int("descending") != 0 ||
          shape.size() != 1 || graph_.type(node->inputs[0]).shape != shape)
        return std::nullopt;
      const ValueId choices = choices_behind(node->inputs[0]);
      const bool fits = counted_.contains(choices) &&
                        (!of_tokens || graph_.type(choices).shape[1] == Dim(divisor));
      return fits ? std::optional(Sorting{choices, of_tokens}) : std::nullopt;
    }
    return std::nullopt;
  }

  /// The Div of a number that is not negative by a whole one whose result, rounded, the node has.
  const Node* whole_quotient(const Node& node) const {
    const Node* quotient = &node;
    if (node.op->name == "Mul") {
      const Node* floor = producer_of(graph_, node.inputs[0], "Floor");
      const Node* sign = producer_of(graph_, node.inputs[1], "Sign");
      const Node* size = floor != nullptr ? producer_of(graph_, floor->inputs[0], "Abs") : nullptr;
      if (size == nullptr || sign == nullptr || size->inputs[0] != sign->inputs[0]) return nullptr;
      quotient = graph_.producer(size->inputs[0]);
    } else if (!is_integer(graph_.type(node.outputs[0]).dtype)) {
      return nullptr;
    }
    if (quotient == nullptr || quotient->op->name != "Div") return nullptr;
    const auto divisor = splat_value(graph_, quotient->inputs[1]);
    return divisor && *divisor >= 1 && *divisor == std::floor(*divisor) ? quotient : nullptr;
  }

  /// Rows times shares that are added to zeros, at the rows' tokens.
  std::optional<ValueId> sum(GraphBuilder& b, const Node& node) {
    const std::string& combine = node.attrs.get_string("combine");
    if (node.inputs.size() != 4 || (combine != "sum" && combine != "add")) return std::nullopt;
    const auto rows_at = sorting(node.inputs[2]);
    const TensorType& result = graph_.type(node.outputs[0]);
    const Node* column = producer_of(graph_, node.inputs[3], "Iota");
    const Node* scaled = producer_of(graph_, node.inputs[1], "Mul");
    const auto zero = Elements(graph_).source(node.inputs[0], std::vector<Dim>(2, Dim(0)));
    if (!rows_at || !rows_at->of_tokens || result.shape.size() != 2 || column == nullptr ||
        column->attrs.get_int("axis") != 1 || scaled == nullptr || !zero ||
        splat_value(graph_, zero->value) != 0)
      return std::nullopt;
    const Shape& chosen = graph_.type(rows_at->choices).shape;
    if (result.shape[0] != chosen[0] ||
        graph_.type(node.inputs[1]).shape != Shape{chosen[0] * chosen[1], result.shape[1]})
      return std::nullopt;
    for (const std::size_t i : {0, 1}) {
      ValueId shares = scaled->inputs[i];
      while (const Node* view = producer_of(graph_, shares, "Reshape")) shares = view->inputs[0];
      const Node* take = producer_of(graph_, shares, "Gather");
      const auto order = take != nullptr ? sorting(take->inputs[1]) : std::nullopt;
      const ValueId y = scaled->inputs[1 - i];
      if (!order || order->of_tokens || order->choices != rows_at->choices ||
          ir::element_count(graph_.type(take->inputs[0]).shape) != chosen[0] * chosen[1] ||
          ir::element_count(graph_.type(shares).shape) != chosen[0] * chosen[1] ||
          graph_.type(y).shape != graph_.type(node.inputs[1]).shape)
        continue;
      const ir::ExpertRows rows = rows_of(b, rows_at->choices);
      const ValueId factors = mixtures::cast(
          b, mixtures::reshape(b, new_.at(take->inputs[0]), chosen), DType::kFloat32);
      return mixtures::cast(b, ir::combine_rows(b, rows, new_.at(y), factors), result.dtype);
    }
    return std::nullopt;
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
      const Dim& from = slice->attrs.get_dims("starts")[0];
      const bool is_next =
          slice->inputs[0] == parts.rows && rows.size() == 2 &&
          slice->attrs.get_dims("starts")[1] == Dim(0) &&
          (from == start || from == ir::min(start, rows[0] - part[0], graph_.ranges())) &&
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
    return counted(value, std::vector<Dim>(graph_.type(value).shape.size(), Dim(0)), expert,
                   experts);
  }
  std::optional<ValueId> counted(ValueId value, std::vector<Dim> index, std::int64_t expert,
                                 std::int64_t experts) const {
    Elements elements(graph_);
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

  /// Whether the check is of the sum of sizes of parts (Split) that count the choices of each
  /// expert, of as many rows as there are choices.
  bool counts_all(const Node& check) const {
    const Node* either = producer_of(graph_, check.inputs[0], "Where");
    const Node* surplus =
        either != nullptr ? producer_of(graph_, either->inputs[2], "Sub") : nullptr;
    const Node* sum =
        surplus != nullptr ? producer_of(graph_, surplus->inputs[0], "ReduceSum") : nullptr;
    const Node* rows =
        surplus != nullptr ? producer_of(graph_, surplus->inputs[1], "Size") : nullptr;
    if (sum == nullptr || rows == nullptr) return false;
    const ValueId sizes = sum->inputs[0];
    const Shape& shape = graph_.type(sizes).shape;
    if (shape.size() != 1 || !shape[0].is_constant()) return false;
    std::optional<ValueId> choices;
    for (std::int64_t i = 0; i < shape[0].value(); ++i) {
      const auto own = counted(sizes, {Dim(i)}, i, shape[0].value());
      if (!own || (i > 0 && own != choices)) return false;
      choices = own;
    }
    return choices &&
           rows->attrs.get_dims("value")[0] == ir::element_count(graph_.type(*choices).shape);
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
  return ir::rewrite(
      graph,
      [&](GraphBuilder& b, const Graph&, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        rows.visit(node, inputs);
        if (const auto own = rows.follow(b, node)) return std::vector{*own};
        const auto joined = rows.join(b, node);
        if (!joined) return std::nullopt;
        decide(context, *rows.product_of(node), node, true,
               fmt::format("a mixture of {} experts: parts of sorted rows", node.inputs.size()));
        context.decisions.back().sought = "GroupedMatMul";
        return std::vector{*joined};
      });
}

}  // namespace sinter::fusion
