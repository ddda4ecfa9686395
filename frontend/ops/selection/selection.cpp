// SPDX-License-Identifier: Apache-2.0
// Operators that select elements by data; the run determines their number.
#include "frontend/ops/selection/compact.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

Term non_zero_flags(const Term& x) {
  return x.dtype() == DType::kBool ? x : x.with("Equal", 0.0).apply("Not");
}

/// The same for a tensor that is known at compile time, such as a mask of sizes.
ValueId known_places(NodeContext& node, const ir::Tensor& x) {
  Ints places;  // concatenated indices, one per dimension for each element
  const Ints shape = x.shape().empty() ? Ints{1} : Ints(x.shape());
  Ints index(shape.size());
  for (std::int64_t i = 0; i < x.element_count(); ++i) {
    std::int64_t rest = i;
    for (std::size_t d = index.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    const bool is_zero = is_float(x.dtype()) ? x.at(i) == 0 : x.at_int(i) == 0;
    if (!is_zero) places.insert(places.end(), index.begin(), index.end());
  }
  const auto rank = std::ssize(index);
  const auto count = std::ssize(places) / rank;
  const ValueId rows =
      node.builder().constant(ir::Tensor::from_ints(DType::kInt64, {count, rank}, places));
  return node.add("Transpose", {rows}, {{"perm", Ints{1, 0}}});
}

/// The indices of nonzero elements, a column for each.
void non_zero(NodeContext& node) {
  const Term x(node, node.x());
  const Shape shape = x.shape().empty() ? Shape{Dim(1)} : x.shape();
  if (const auto known = node.folder().constant(x.value()))
    return node.output(known_places(node, *known));
  const Places places = places_of(node, non_zero_flags(x).reshape({ir::element_count(shape)}));
  std::vector<ValueId> rows;
  for (const Term& row : unravelled(places.index, shape))
    rows.push_back(row.reshape({Dim(1), places.count}).value());
  node.output(node.concat(rows, 0));
}

/// The slices along an axis, or the elements, for which the condition is true.
void compress(NodeContext& node) {
  Term x(node, node.x());
  Term condition(node, node.input(1, "condition"));
  if (condition.dtype() != DType::kBool)
    node.invalid("condition must be a vector of bools, but is {}", node.type(condition.value()));
  if (condition.shape().size() != 1) {
    node.assume("its condition {} is no vector, and is taken flat", node.type(condition.value()));
    condition = condition.reshape({ir::element_count(condition.shape())});
  }
  std::int64_t axis = 0;
  if (node.has_attr("axis"))
    axis = node.normalise_axis(node.attr_int("axis"), node.rank(x.value()));
  else
    x = x.reshape({ir::element_count(x.shape())});
  const Dim extent = x.shape()[static_cast<std::size_t>(axis)];
  if (condition.shape()[0].is_constant() && extent.is_constant() &&
      condition.shape()[0].value() > extent.value())
    node.invalid("condition has {} elements for a dimension of {}", condition.shape()[0], extent);
  const Places places = places_of(node, condition);
  node.output(node.add("Gather", {x.value(), places.index.value()}, {{"axis", axis}}));
}

}  // namespace

const OpRows kSelectionOps = {
    {"NonZero", 9, non_zero},
    {"Compress", 9, compress, "axis"},
};

}  // namespace sinter::frontend
