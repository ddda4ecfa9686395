// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/views.h"

#include "ir/reference/evaluate.h"

namespace sinter::fusion {

ValueId add_view(GraphBuilder& builder, std::string_view op, ValueId value, const Attrs& attrs) {
  const Tensor* constant = builder.constant_of(value);
  if (constant == nullptr) return builder.add(op, {value}, attrs);
  const Tensor inputs[] = {*constant};
  return builder.constant(ir::evaluate_op(ir::get_op(op), attrs, inputs).at(0));
}

namespace {

/// `value` transposed for free: its source view is transposed instead.
std::optional<ValueId> transposed_back(GraphBuilder& builder, ValueId value, const Perm& perm) {
  if (is_identity(perm)) return value;
  const Node* view = builder.producer(value);
  if (view == nullptr) return std::nullopt;
  const ValueId source = view->inputs.empty() ? value : view->inputs[0];
  if (view->op->name == "Transpose")
    return transposed_back(builder, source, permuted(view->attrs.get_ints("perm"), perm));
  if (view->op->name != "Reshape") return std::nullopt;
  const Shape to = builder.type(value).shape;
  const auto layouts = through_reshape(to, builder.type(source).shape, perm);
  if (!layouts || layouts->before != perm) return std::nullopt;
  const auto inner = transposed_back(builder, source, layouts->after);
  if (!inner) return std::nullopt;
  return builder.add("Reshape", {*inner}, {{"shape", permuted(to, perm)}});
}

}  // namespace

ValueId add_transpose(GraphBuilder& builder, ValueId value, const Perm& perm) {
  if (const auto back = transposed_back(builder, value, perm)) return *back;
  const Node* view = builder.producer(value);
  if (view != nullptr && view->op->name == "Transpose")
    return builder.add("Transpose", {view->inputs[0]},
                       {{"perm", permuted(view->attrs.get_ints("perm"), perm)}});
  return add_view(builder, "Transpose", value, {{"perm", perm}});
}

}  // namespace sinter::fusion
