// SPDX-License-Identifier: Apache-2.0
#include "ir/mixture/expert_rows.h"

namespace sinter::ir {
namespace {

ValueId cast(GraphBuilder& b, ValueId value, DType type) {
  return b.type(value).dtype == type ? value : b.add("Cast", {value}, {{"to", Attr(type)}});
}
ValueId reshape(GraphBuilder& b, ValueId value, Shape shape) {
  return b.add("Reshape", {value}, {{"shape", Attr(std::move(shape))}});
}
ValueId gather(GraphBuilder& b, ValueId data, ValueId rows) {
  return b.add("Gather", {data, rows}, {{"axis", Attr(std::int64_t{0})}});
}
ValueId reduce(GraphBuilder& b, std::string_view op, ValueId x, std::int64_t axis, bool keep) {
  return b.add(op, {x}, {{"axes", Attr(Ints{axis})}, {"keepdims", Attr(std::int64_t{keep})}});
}
}  // namespace

ExpertRows sort_by_expert(GraphBuilder& b, ValueId choices, std::int64_t experts) {
  const Shape shape = b.type(choices).shape;
  ExpertRows rows;
  rows.tokens = shape[0];
  rows.chosen = shape[1].value();
  rows.experts = experts;
  const Dim count = shape[0] * shape[1];
  const ValueId flat = reshape(b, choices, {count});
  const auto extent = [](const Dim& dim) { return Attrs{{"extent", Attr(Shape{dim})}}; };
  const std::vector<ValueId> grouped = b.add_multi("GroupByIndex", {flat}, extent(experts + 1));
  rows.offsets = grouped[1];
  rows.order = grouped[0];
  rows.tokens_of =
      b.add("Div", {rows.order, b.scalar(DType::kInt32, static_cast<double>(rows.chosen))});
  rows.experts_of = gather(b, flat, rows.order);
  // The inverse permutation.
  rows.rows_of = reshape(b, b.add("LastByIndex", {rows.order}, extent(count)), shape);
  return rows;
}

ValueId take_tokens(GraphBuilder& b, const ExpertRows& rows, ValueId x) {
  return gather(b, x, rows.tokens_of);
}

ValueId take_choices(GraphBuilder& b, const ExpertRows& rows, ValueId x) {
  return gather(b, x, rows.order);
}

ValueId take_experts(GraphBuilder& b, const ExpertRows& rows, ValueId values) {
  const ValueId last = b.scalar(DType::kInt32, static_cast<double>(rows.experts - 1));
  return gather(b, values, b.add("Min", {rows.experts_of, last}));
}

ValueId combine_rows(GraphBuilder& b, const ExpertRows& rows, ValueId y, ValueId shares) {
  const ValueId parts = cast(b, gather(b, y, rows.rows_of), DType::kFloat32);
  const ValueId factors = reshape(b, shares, {rows.tokens, Dim(rows.chosen), Dim(1)});
  return reduce(b, "ReduceSum", b.add("Mul", {parts, factors}), 1, false);
}

std::optional<CombinedRows> find_combined_rows(const Graph& graph, ValueId rows) {
  const auto next = [&](ValueId value) -> const Node* {
    const auto& users = graph.users(value);
    return users.size() == 1 && !graph.is_output(value) ? &graph.node(users[0]) : nullptr;
  };
  const Node* node = next(rows);
  if (node == nullptr || node->op->name != "Gather" || node->inputs[0] != rows ||
      node->attrs.get_int("axis") != 0)
    return std::nullopt;
  CombinedRows found;
  found.rows_of = node->inputs[1];
  const TensorType places = graph.type(found.rows_of);
  if (places.dtype != DType::kInt32 || places.shape.size() != 2 || !places.shape[1].is_constant() ||
      graph.type(rows).shape.size() != 2)
    return std::nullopt;
  found.chosen = places.shape[1].value();
  ValueId value = node->outputs[0];
  node = next(value);
  if (node != nullptr && node->op->name == "Cast") {
    value = node->outputs[0];
    node = next(value);
  }
  if (node == nullptr || node->op->name != "Mul" || graph.type(value).dtype != DType::kFloat32)
    return std::nullopt;
  found.shares = node->inputs[node->inputs[0] == value ? 1 : 0];
  if (graph.type(found.shares).shape != Shape{places.shape[0], places.shape[1], Dim(1)})
    return std::nullopt;
  for (const Node* made = graph.producer(found.shares);
       made != nullptr && (made->op->name == "Reshape" || made->op->name == "Cast");
       made = graph.producer(found.shares)) {
    const DType type = graph.type(found.shares).dtype, from = graph.type(made->inputs[0]).dtype;
    if (!is_float(from)) break;
    if (size_of(type) < size_of(from)) {
      if (found.rounded || size_of(type) != 2) return std::nullopt;
      found.rounded = type;
    }
    found.shares = made->inputs[0];
  }
  node = next(node->outputs[0]);
  if (node == nullptr || node->op->name != "ReduceSum" || node->attrs.get_ints("axes") != Ints{1})
    return std::nullopt;
  found.sum = node->outputs[0];
  return found;
}

}  // namespace sinter::ir
