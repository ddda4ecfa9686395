// SPDX-License-Identifier: Apache-2.0
#include "fusion/sharding/split_projections.h"

#include <algorithm>

#include "ir/ranks/rank_parts.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// A matmul of constant weights, and the constant that is added to its result.
struct Projection {
  const Node* product = nullptr;
  ValueId bias;  // invalid: none
};

/// Whether `node` slices columns of its input alone.
bool is_column_slice(const Graph& graph, const Node& node) {
  if (node.op->name != "Slice") return false;
  const Shape &in = graph.type(node.inputs[0]).shape, &out = graph.type(node.outputs[0]).shape;
  const auto& starts = node.attrs.get_dims("starts");
  const std::size_t last = in.size() - 1;
  if (in.empty() || !starts[last].is_constant() || !out[last].is_constant()) return false;
  for (std::size_t d = 0; d < in.size(); ++d)
    if (node.attrs.get_ints("steps")[d] != 1 ||
        (d != last && (starts[d] != Dim(0) || in[d] != out[d])))
      return false;
  return true;
}

bool only_slices_read(const Graph& graph, ValueId value) {
  return !graph.is_output(value) && std::ranges::all_of(graph.users(value), [&](NodeId user) {
    return is_column_slice(graph, graph.node(user));
  });
}

bool has_constant_columns(const Graph& graph, const Node& node) {
  if (node.op->name != "MatMul" || graph.type(node.inputs[1]).shape.size() != 2) return false;
  const ir::ProductFormats formats(node.attrs);
  return (!formats.w || formats.w->rows == 1) &&
         std::all_of(node.inputs.begin() + (formats.x ? 3 : 1), node.inputs.end(),
                     [&](ValueId input) { return graph.is_constant(input); }) &&
         graph.is_constant(node.inputs[1]);
}

/// What `value`, which slices read, is made of.
std::optional<Projection> projection_of(const Graph& graph, ValueId value) {
  const Node* node = graph.producer(value);
  if (node == nullptr || !only_slices_read(graph, value)) return std::nullopt;
  if (has_constant_columns(graph, *node)) return Projection{node, {}};
  if (node->op->name != "Add") return std::nullopt;
  for (const std::size_t i : {0, 1}) {
    const ValueId bias = node->inputs[1 - i], product = node->inputs[i];
    const Node* producer = graph.producer(product);
    if (producer != nullptr && has_constant_columns(graph, *producer) &&
        graph.users(product).size() == 1 && !graph.is_output(product) && graph.is_constant(bias) &&
        graph.type(bias).shape.size() == 1)
      return Projection{producer, bias};
  }
  return std::nullopt;
}

/// Elements `start` to `start + size` of dimension `axis` of a constant.
ValueId part_of_constant(GraphBuilder& builder, const Value& whole, std::int64_t axis,
                         std::int64_t start, std::int64_t size) {
  const Attrs attrs{
      {"axis", axis}, {"starts", Ints{start}}, {"size", size}, {"rank", std::int64_t{0}}};
  return builder.constant(ir::derive(ir::kPart, attrs, std::span(whole.constant.get(), 1)),
                          whole.name);
}

}  // namespace

Graph with_split_projections(const Graph& graph) {
  std::vector<ValueId> copies(graph.values().size());  // x of projections, by value of `graph`
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        for (std::size_t i = 0; i < inputs.size(); ++i)
          copies[node.inputs[i].position()] = inputs[i];
        if (!is_column_slice(old, node)) return std::nullopt;
        const auto projection = projection_of(old, node.inputs[0]);
        if (!projection) return std::nullopt;
        const Node& product = *projection->product;
        const ir::ProductFormats formats(product.attrs);
        const std::int64_t start = node.attrs.get_dims("starts").back().value(),
                           size = old.type(node.outputs[0]).shape.back().value();
        const GraphBuilder::OriginScope scope(builder, product.origins);
        std::vector<ValueId> operands;
        for (std::size_t i = 0; i < product.inputs.size(); ++i) {
          const ValueId operand = product.inputs[i];
          const bool is_weight = i == 1 || (formats.w && i >= formats.weight_scales());
          operands.push_back(is_weight ? part_of_constant(builder, old.value(operand),
                                                          formats.w ? 0 : 1, start, size)
                                       : copies[operand.position()]);
        }
        ValueId result = builder.add("MatMul", operands, product.attrs);
        if (projection->bias.valid())
          result = builder.add(
              "Add",
              {result, part_of_constant(builder, old.value(projection->bias), 0, start, size)});
        return std::vector{result};
      });
}

}  // namespace sinter::fusion
