// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/control/unroll.h"

namespace sinter::frontend {

namespace {

void require_axis(NodeContext& node, ValueId value, std::int64_t axis) {
  if (axis >= node.rank(value))
    node.invalid("{} must have more than {} dimensions", node.type(value), axis);
}

}  // namespace

ValueId part(NodeContext& node, ValueId value, std::int64_t axis, const Dim& begin,
             const Dim& count) {
  require_axis(node, value, axis);
  const auto at = static_cast<std::size_t>(axis);
  Shape shape = node.shape(value);
  if (begin == Dim(0) && count == shape[at]) return value;
  std::vector<Dim> starts(shape.size(), Dim(0));
  starts[at] = begin;
  shape[at] = count;
  return node.add("Slice", {value},
                  {{"starts", starts}, {"steps", Ints(shape.size(), 1)}, {"shape", shape}});
}

ValueId element(NodeContext& node, ValueId value, std::int64_t axis, std::int64_t at) {
  require_axis(node, value, axis);
  Shape rest = node.shape(value);
  rest.erase(rest.begin() + axis);
  return node.reshape(part(node, value, axis, at, 1), rest);
}

ValueId stack(NodeContext& node, std::vector<ValueId> values, const ir::TensorType& type,
              std::int64_t axis) {
  Shape one = type.shape;
  one.insert(one.begin() + axis, Dim(1));
  if (values.empty()) {
    one[static_cast<std::size_t>(axis)] = 0;
    return node.expand(node.constant(type.dtype, 0), one);
  }
  for (ValueId& value : values) {
    if (node.type(value) != type)
      node.unsupported(
          "a stacked value is {} in one iteration and {} in another; it must have one shape", type,
          node.type(value));
    value = node.reshape(value, one);
  }
  return node.concat(std::move(values), axis);
}

}  // namespace sinter::frontend
