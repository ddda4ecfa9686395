// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/region_space.h"

#include <algorithm>

namespace sinter::codegen {

ReduceShape reduce_shape(const Graph& body, const Node& node) {
  const Shape& shape = body.type(node.inputs[0]).shape;
  ReduceShape result;
  result.reduced.assign(shape.size(), false);
  for (const std::int64_t axis : node.attrs.get_ints("axes"))
    result.reduced[static_cast<std::size_t>(axis)] = true;
  for (std::size_t d = 0; d < shape.size(); ++d)
    (result.reduced[d] ? result.reduced_extents : result.kept_extents).push_back(shape[d]);
  return result;
}

const Node* scatter_of(const Graph& body) {
  for (const Node& node : body.nodes())
    if (node.op->scatter()) return &node;
  return nullptr;
}

namespace {

/// Dimensions of the updates along which scattered elements may collide. Along the others an index
/// tensor counts, so that elements go to different indices.
std::vector<bool> ordered_dims(const Graph& body, const Node& node, const ExprTable& exprs) {
  const Shape& shape = body.type(node.inputs[1]).shape;
  Ranges ranges = exprs.ranges();
  const std::vector<Dim> index = ir::index_symbols(shape, ranges);
  const std::vector<TensorType> types = body.types(node.inputs);
  std::vector<bool> ordered(shape.size(), true);
  for (const ir::DataIndex& position : node.op->scatter()->map(node.attrs, types, index)) {
    const auto known =
        position.input < 0
            ? std::optional(position.at[0])
            : ir::index_of_value(body, node.inputs[static_cast<std::size_t>(position.input)],
                                 position.at, ranges);
    for (std::size_t d = 0; known && d < shape.size(); ++d)
      if (*known == index[d]) ordered[d] = false;
  }
  // Rows that are replaced as a whole are written contiguously.
  if (!node.op->scatter()->combine(node.attrs))
    std::fill(std::ranges::find(ordered, true), ordered.end(), true);
  return ordered;
}

}  // namespace

LoopSpace space_of(const Graph& body, const ExprTable& exprs) {
  for (const Node& node : body.nodes()) {
    if (node.op->kind != OpKind::kReduce) continue;
    const Shape& shape = body.type(node.inputs[0]).shape;
    return LoopSpace(shape, reduce_shape(body, node).reduced, exprs.ranges());
  }
  if (const Node* node = scatter_of(body))
    return LoopSpace(body.type(node->inputs[1]).shape, ordered_dims(body, *node, exprs),
                     exprs.ranges());
  for (const Node& node : body.nodes()) {
    const Shape& shape = body.type(node.outputs[0]).shape;
    if (!node.op->scan()) continue;
    const auto axis = static_cast<std::size_t>(node.attrs.get_int("axis"));
    std::vector<bool> inner(shape.size(), false);
    inner[axis] = true;
    LoopSpace space(shape, inner, exprs.ranges());
    if (node.attrs.get_int("reverse") != 0) space.reverse(axis);
    return space;
  }
  const Shape& shape = body.type(body.outputs().at(0)).shape;
  return LoopSpace(shape, std::vector<bool>(shape.size(), false), exprs.ranges());
}

ValueId root_of(const Graph& body, ValueId value) {
  for (;;) {
    const Node* node = body.producer(value);
    if (!node || node->op->name != "Reshape") return value;
    value = node->inputs[0];
  }
}

}  // namespace sinter::codegen
