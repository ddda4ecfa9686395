// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/rewrite_products.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "fusion/regions/rebuild.h"
#include "fusion/scales/choice/column_source.h"
#include "ir/reference/kernels.h"

namespace sinter::fusion {
namespace {

class ProductRewriter {
 public:
  ProductRewriter(const Graph& graph, const EightBitProducts& products)
      : graph_(graph), products_(products) {}

  Graph rewritten() const {
    Chosen chosen;
    for (const EightBitLayer& layer : products_.layers)
      chosen[&graph_.nodes()[layer.node_index]] = &layer;
    const Divided divided = find_divided(chosen);
    const auto factors_of = [&](std::size_t group) -> const std::vector<float>& {
      return products_.groups[group].scale.smoothing;
    };
    return ir::rewrite(
        graph_,
        [&](GraphBuilder& builder, const Graph&, const Node& node,
            std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
          if (const auto norm = divided.norms.find(&node); norm != divided.norms.end())
            return std::vector{add_divided_norm(builder, node, inputs, factors_of(norm->second))};
          const auto column = divided.columns.find(&node);
          const bool is_divided = column != divided.columns.end();
          const auto found = chosen.find(&node);
          if (found == chosen.end()) {
            if (!is_divided) return std::nullopt;
            return std::vector{
                add_divided_constant(builder, node, inputs, factors_of(column->second))};
          }
          const EightBitLayer& layer = *found->second;
          const bool smooths = !divided.groups.contains(layer.group);
          return std::vector{add_eight_bit_layer(
              builder, layer, products_.groups[layer.group].scale, node, inputs, smooths,
              [&](DType type) {
                if (layer.groups != 0)
                  return add_dequantized_groups(builder, layer.weights, layer.groups, type);
                return add_dequantized(
                    builder, layer.weights,
                    ir::reference::concrete_shape(graph_.type(node.inputs[1]).shape), type,
                    is_divided ? factors_of(column->second) : std::vector<float>());
              })};
        });
  }

 private:
  /// The norm that computes the activation of `group`, if its scale and bias can be divided
  /// instead; otherwise null.
  const Node* norm_of(std::size_t group) const {
    const Node* norm = graph_.producer(products_.groups[group].activation);
    if (norm == nullptr || (norm->op->name != "LayerNorm" && norm->op->name != "RmsNorm"))
      return nullptr;
    for (std::size_t i = 1; i < norm->inputs.size(); ++i)
      if (!graph_.is_constant(norm->inputs[i])) return nullptr;
    return norm;
  }

  using Chosen = std::map<const Node*, const EightBitLayer*>;

  /// Whether only these layers see that the activation of `group` is divided.
  bool may_be_divided(std::size_t group, const Chosen& chosen) const {
    const ValueId activation = products_.groups[group].activation;
    return !products_.groups[group].scale.smoothing.empty() && !products_.groups[group].is_conv &&
           !graph_.is_output(activation) &&
           std::ranges::all_of(graph_.users(activation), [&](NodeId user) {
             const auto found = chosen.find(&graph_.node(user));
             return found != chosen.end() && found->second->group == group;
           });
  }

  ValueId add_divided_norm(GraphBuilder& builder, const Node& norm, std::span<const ValueId> inputs,
                           const std::vector<float>& factors) const {
    std::vector<ValueId> operands{inputs[0]};
    for (std::size_t i = 1; i < norm.inputs.size(); ++i)
      operands.push_back(
          builder.constant(divided_columns(*graph_.value(norm.inputs[i]).constant, factors)));
    return builder.add(norm.op->name, std::move(operands), norm.attrs);
  }

  /// A matmul or a bias with its constant divided.
  ValueId add_divided_constant(GraphBuilder& builder, const Node& node,
                               std::span<const ValueId> inputs,
                               const std::vector<float>& factors) const {
    std::vector<ValueId> operands(inputs.begin(), inputs.end());
    const std::size_t i = graph_.is_constant(node.inputs[1]) ? 1 : 0;
    operands[i] =
        builder.constant(divided_columns(*graph_.value(node.inputs[i]).constant, factors));
    return builder.add(node.op->name, std::move(operands), node.attrs);
  }

  /// Nodes that divide activations in place of their layers, with the group that they do it for.
  struct Divided {
    std::map<const Node*, std::size_t> norms, columns;  // columns: of matmuls and their biases
    std::set<std::size_t> groups;
  };
  Divided find_divided(const Chosen& chosen) const {
    Divided found;
    for (std::size_t group = 0; group < products_.groups.size(); ++group) {
      if (!may_be_divided(group, chosen)) continue;
      if (const Node* norm = norm_of(group)) {
        found.norms[norm] = group;
      } else if (const auto source = column_source(graph_, products_.groups[group].activation)) {
        found.columns[source->product] = group;
        if (source->bias != nullptr) found.columns[source->bias] = group;
      } else {
        continue;
      }
      found.groups.insert(group);
    }
    return found;
  }

  const Graph& graph_;
  const EightBitProducts& products_;
};

}  // namespace

ValueId add_eight_bit_layer(GraphBuilder& builder, const EightBitLayer& layer,
                            const ActivationScale& scale, const Node& node,
                            std::span<const ValueId> inputs, bool smooths,
                            const std::function<ValueId(DType)>& add_weights) {
  std::vector<ValueId> operands(inputs.begin(), inputs.end());
  operands[0] = add_rounded(builder, operands[0], scale, smooths);
  if (!layer.has_four_bits) operands[1] = add_weights(builder.type(operands[1]).dtype);
  Attrs attrs = node.attrs;
  if (layer.groups != 0) attrs.set("transposed", std::int64_t{1});
  return builder.add(node.op->name, std::move(operands), std::move(attrs));
}

Graph rewrite_products(const Graph& graph, const EightBitProducts& products) {
  return ProductRewriter(graph, products).rewritten();
}

}  // namespace sinter::fusion
