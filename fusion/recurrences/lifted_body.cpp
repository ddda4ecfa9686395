// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/lifted_body.h"

#include <algorithm>

#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

template <typename T>
std::vector<T> behind(T first, std::vector<T> rest) {
  rest.insert(rest.begin(), std::move(first));
  return rest;
}
Ints one_more(Ints axes) {
  for (std::int64_t& axis : axes) ++axis;
  return axes;
}
bool is_reduction(const Node& node) {
  return node.op->kind == OpKind::kReduce && node.attrs.has("axes");
}

}  // namespace

bool LiftedBody::is_element_of_iteration(const Node& node) const {
  return node.op->name == "Gather" && node.inputs[1] == body_.inputs()[0] &&
         !kinds_.at(node.inputs[0]);
}

bool LiftedBody::can_lift(const Node& node) const {
  const std::string_view op = node.op->name;
  if (node.outputs.size() != 1 || !node.extents.empty()) return false;
  if (node.op->kind == OpKind::kPointwise || op == "Reshape" || op == "Transpose" ||
      op == "Expand" || op == "Slice" || is_reduction(node))
    return true;
  if (op == "MatMul")
    return ir::is_plain_matmul(node) && body_.type(node.inputs[0]).shape.size() >= 2 &&
           body_.type(node.inputs[1]).shape.size() >= 2;
  return is_element_of_iteration(node);
}

void LiftedBody::plan(std::span<const ValueId> given) {
  for (const ValueId value : given) kinds_.emplace(value, true);
  for (std::size_t v = 0; v < body_.values().size(); ++v) {
    const ValueId value{static_cast<std::int32_t>(v)};
    if (body_.is_constant(value)) kinds_.emplace(value, false);
  }
  for (const Node& node : body_.nodes()) {
    if (std::ranges::any_of(node.outputs, [&](ValueId out) { return kinds_.contains(out); }) ||
        !std::ranges::all_of(node.inputs, [&](ValueId in) { return kinds_.contains(in); }))
      continue;
    const bool differs =
        std::ranges::any_of(node.inputs, [&](ValueId in) { return kinds_.at(in); });
    if (differs && !can_lift(node)) continue;
    for (const ValueId out : node.outputs) kinds_.emplace(out, differs);
  }
}

ValueId LiftedBody::emit(GraphBuilder& b, std::map<ValueId, ValueId>& bound, ValueId value) const {
  if (const auto known = bound.find(value); known != bound.end()) return known->second;
  const Node* const node = body_.producer(value);
  if (node == nullptr) {
    const ValueId constant = b.constant(body_.value(value).constant);
    bound.emplace(value, constant);
    return constant;
  }
  std::vector<ValueId> inputs;
  for (const ValueId input : node->inputs) inputs.push_back(emit(b, bound, input));
  const GraphBuilder::OriginScope scope(b, node->origins);
  if (differs(value)) {
    const ValueId result = lifted(b, *node, inputs);
    bound.emplace(value, result);
    return result;
  }
  const auto outputs = b.add_multi(node->op->name, inputs, node->attrs, node->body);
  for (std::size_t i = 0; i < outputs.size(); ++i) bound.emplace(node->outputs[i], outputs[i]);
  return bound.at(value);
}

ValueId LiftedBody::lifted(GraphBuilder& b, const Node& node,
                           std::span<const ValueId> given) const {
  const std::string_view op = node.op->name;
  const Shape out = body_.type(node.outputs[0]).shape;
  std::vector<ValueId> inputs(given.begin(), given.end());
  if (is_element_of_iteration(node)) {
    const auto axis = static_cast<std::size_t>(node.attrs.get_int("axis"));
    ValueId data = inputs[0];
    // `inputs[1]` numbers the iterations.
    if (b.type(data).shape[axis] != trips_)
      data = b.add("Gather", {data, inputs[1]}, {{"axis", static_cast<std::int64_t>(axis)}});
    Ints perm{static_cast<std::int64_t>(axis)};
    for (std::size_t d = 0; d < b.type(data).shape.size(); ++d)
      if (d != axis) perm.push_back(static_cast<std::int64_t>(d));
    return axis == 0 ? data : b.add("Transpose", {data}, {{"perm", perm}});
  }
  // Operands that broadcast get their missing dimensions behind the first.
  const bool broadcasts = node.op->kind == OpKind::kPointwise || op == "MatMul" || op == "Expand";
  for (std::size_t i = 0; broadcasts && i < inputs.size(); ++i) {
    if (!differs(node.inputs[i])) continue;
    Shape shape = b.type(inputs[i]).shape;
    const std::size_t missing = out.size() + 1 - shape.size();
    shape.insert(shape.begin() + 1, missing, Dim(1));
    if (missing > 0) inputs[i] = b.add("Reshape", {inputs[i]}, {{"shape", shape}});
  }
  Attrs attrs = node.attrs;
  if (op == "Reshape" || op == "Expand" || op == "Slice")
    attrs.set("shape", behind(trips_, attrs.get_dims("shape")));
  if (op == "Slice") {
    attrs.set("starts", behind(Dim(0), attrs.get_dims("starts")));
    attrs.set("steps", behind(std::int64_t{1}, attrs.get_ints("steps")));
  }
  if (op == "Transpose")
    attrs.set("perm", behind(std::int64_t{0}, one_more(attrs.get_ints("perm"))));
  if (is_reduction(node)) attrs.set("axes", one_more(attrs.get_ints("axes")));
  return b.add(node.op->name, inputs, attrs);
}

}  // namespace sinter::fusion
