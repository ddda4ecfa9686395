// SPDX-License-Identifier: Apache-2.0
// Sums by index in parts: the updates of each row are found once, and combined row by row. What a
// Scatter becomes (fusion/passes/group_updates.cpp).
#include <fmt/format.h>

#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

const Dim& extent_of(const Attrs& attrs) {
  const Shape& extent = attrs.get_dims("extent");
  if (extent.size() != 1) invalid(fmt::format("extent must be one size, found {}", extent.size()));
  return extent[0];
}

void require_indices(const TensorType& type) {
  if ((type.dtype != DType::kInt32 && type.dtype != DType::kInt64) || type.shape.size() != 1)
    invalid(fmt::format("indices must be a vector of i32 or i64, found {}", to_string(type)));
}

// ---- GroupByIndex(index): the positions of a vector's elements, equal ones side by side, in the
// order of the indices and then of the positions; and where each of "extent" groups begins. Indices
// count from the end if negative. Those out of range are in no group, and come last.

std::vector<TensorType> infer_group(const Attrs& attrs, Types inputs) {
  require_indices(inputs[0]);
  return {{DType::kInt32, inputs[0].shape}, {DType::kInt32, {extent_of(attrs) + Dim(1)}}};
}

// ---- LastByIndex(index): for each of "extent" numbers the last position that holds it, or -1.

std::vector<TensorType> infer_last(const Attrs& attrs, Types inputs) {
  require_indices(inputs[0]);
  return {{DType::kInt32, {extent_of(attrs)}}};
}

/// Values [any, width] that are combined with data [rows, width], or with one element for all.
std::vector<TensorType> infer_combined(const Attrs& attrs, Types inputs, const Dim& rows,
                                       bool replaces = false) {
  const TensorType &data = inputs[0], &values = inputs[1];
  if (combine_attr(attrs, replaces)) require_numbers(inputs);
  if (values.shape.size() != 2 || values.dtype != data.dtype)
    invalid("values must be a matrix of the data's element type, found " + list_types(inputs));
  const Shape shape{rows, values.shape[1]};
  if (data.shape != shape && data.shape != Shape{Dim(1), Dim(1)})
    invalid("data must have the result's shape or one element, found " + list_types(inputs));
  return {{data.dtype, shape}};
}

// ---- CombineGroups(data, values, order, starts[, factors]): row r is data[r], combined with
// values[order[i]], times factors[i], for starts[r] <= i < starts[r + 1], in this order.

std::vector<TensorType> infer_groups(const Attrs& attrs, Types inputs) {
  require_indices(inputs[2]);
  if (inputs[3].dtype != DType::kInt32 || inputs[3].shape.size() != 1)
    invalid("starts must be a vector of i32, found " + list_types(inputs));
  if (inputs.size() == 5 &&
      (inputs[4].dtype != inputs[0].dtype || inputs[4].shape != inputs[2].shape))
    invalid("factors must have the data's type, one for each index, found " + list_types(inputs));
  return infer_combined(attrs, inputs, inputs[3].shape[0] - Dim(1));
}

// ---- CombineTable(data, values, index): row index[i] is combined with, or replaced by, values[i],
// in the order of i; or element by element, with an index for each.

std::vector<TensorType> infer_table(const Attrs& attrs, Types inputs) {
  if (inputs[2].shape != inputs[1].shape) {
    require_indices(inputs[2]);
    if (inputs[1].shape.empty() || inputs[1].shape[0] != inputs[2].shape[0])
      invalid("each row of values needs an index, found " + list_types(inputs));
  }
  return infer_combined(attrs, inputs, extent_of(attrs), true);
}

OpDef kernel(std::string name, std::string_view kernel, int inputs) {
  return {.name = std::move(name),
          .kind = OpKind::kLibrary,
          .kernel = kernel,
          .min_inputs = inputs,
          .max_inputs = inputs};
}

}  // namespace

std::vector<OpDef> groups_ops() {
  const AttrSpec extent = {"extent", AttrKind::kDims, std::nullopt};
  const AttrSpec combine = {"combine", AttrKind::kString, std::nullopt};

  OpDef group = kernel("GroupByIndex", "group_by_index", 1);
  group.attrs = {extent};
  group.infer = infer_group;
  group.evaluate = reference::evaluate_group_by_index;

  OpDef last = kernel("LastByIndex", "last_by_index", 1);
  last.attrs = {extent};
  last.infer = infer_last;
  last.evaluate = reference::evaluate_last_by_index;

  OpDef groups = kernel("CombineGroups", "combine_groups", 4);
  groups.max_inputs = 5;
  groups.attrs = {combine};
  groups.infer = infer_groups;
  groups.evaluate = reference::evaluate_combine_groups;

  OpDef table = kernel("CombineTable", "combine_table", 3);
  table.attrs = {combine, extent};
  table.infer = infer_table;
  table.evaluate = reference::evaluate_combine_table;
  return {group, last, groups, table};
}

}  // namespace sinter::ir::ops
