// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters at indices from other tensors, and generators of such indices.

#include <fmt/format.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

/// The index of a broadcast operand of shape `shape` for the element at `index`.
std::vector<Dim> broadcast_index(const Shape& shape, std::span<const Dim> index) {
  std::vector<Dim> result;
  const std::size_t skip = index.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d)
    result.push_back(shape[d] == Dim(1) ? Dim(0) : index[d + skip]);
  return result;
}

// ---- Gather(data, indices) along "axis", as numpy.take

std::vector<TensorType> infer_gather(const Attrs& attrs, Types inputs) {
  const Shape &data = inputs[0].shape, &indices = inputs[1].shape;
  if (!is_integer(inputs[1].dtype))
    invalid("indices must be integers, found " + list_types(inputs));
  const auto axis = static_cast<std::size_t>(axis_attr(attrs, "axis", data));
  TensorType result{inputs[0].dtype, {}};
  for (std::size_t d = 0; d < axis; ++d) result.shape.push_back(data[d]);
  for (const Dim& dim : indices) result.shape.push_back(dim);
  for (std::size_t d = axis + 1; d < data.size(); ++d) result.shape.push_back(data[d]);
  return {result};
}

std::vector<DataIndex> map_gather(const Attrs& attrs, Types inputs, std::span<const Dim> index) {
  const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
  const std::size_t indices_rank = inputs[1].shape.size();
  std::vector<DataIndex> result;
  for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) {
    const auto at = index.begin() + static_cast<std::ptrdiff_t>(d);
    if (d == axis)
      result.push_back({1, {at, at + static_cast<std::ptrdiff_t>(indices_rank)}});
    else
      result.push_back({-1, {d < axis ? index[d] : index[d - 1 + indices_rank]}});
  }
  return result;
}

// ---- Take(data, i0, i1, ..): out[x] = data[i0[x], i1[x], ..], indices broadcast to one shape.
// ---- Scatter(data, updates, i0, i1, ..): out[i0[x], i1[x], ..] = or op= updates[x], indices
// broadcast to the shape of the updates. "distinct": no two updates go to one place, or nobody
// minds which of them stays.

/// The shape to which the index inputs from `first` on broadcast.
Shape index_shape(Types inputs, std::size_t first) {
  const std::size_t rank = inputs[0].shape.size();
  if (inputs.size() - first != rank || rank == 0)
    invalid(fmt::format("needs one index tensor for each dimension of {}, found {}",
                        to_string(inputs[0]), inputs.size() - first));
  Shape shape;
  for (std::size_t i = first; i < inputs.size(); ++i) {
    if (!is_integer(inputs[i].dtype))
      invalid("indices must be integers, found " + list_types(inputs));
    shape = broadcast(shape, inputs[i].shape);
  }
  return shape;
}

std::vector<TensorType> infer_take(const Attrs&, Types inputs) {
  return {{inputs[0].dtype, index_shape(inputs, 1)}};
}

std::vector<TensorType> infer_scatter(const Attrs& attrs, Types inputs) {
  const Shape shape = index_shape(inputs, 2);
  if (inputs[1].dtype != inputs[0].dtype || broadcast(shape, inputs[1].shape) != inputs[1].shape)
    invalid("updates must be of the data's element type and of the shape of the indices, found " +
            list_types(inputs));
  const DType type = inputs[0].dtype;
  if (combine_attr(attrs, true) && (type == DType::kBool || is_float8(type)))
    invalid(fmt::format("{} elements can only be replaced, not combined", sinter::to_string(type)));
  return {inputs[0]};
}

std::vector<DataIndex> map_indices(std::size_t first, Types inputs, std::span<const Dim> index) {
  std::vector<DataIndex> result;
  for (std::size_t i = first; i < inputs.size(); ++i)
    result.push_back({static_cast<int>(i), broadcast_index(inputs[i].shape, index)});
  return result;
}

// ---- Iota: each element is its index along "axis". Size: the number "value".

void require_number(const Attrs& attrs) {
  const DType type = attrs.get_dtype("dtype");
  if (type == DType::kBool || is_float8(type))
    invalid(fmt::format("the type must be one of numbers, not {}", sinter::to_string(type)));
}

std::vector<TensorType> infer_iota(const Attrs& attrs, Types) {
  require_number(attrs);
  const Shape& shape = attrs.get_dims("shape");
  axis_attr(attrs, "axis", shape);
  return {{attrs.get_dtype("dtype"), shape}};
}

std::vector<TensorType> infer_size(const Attrs& attrs, Types) {
  require_number(attrs);
  if (attrs.get_dims("value").size() != 1)
    invalid(fmt::format("value must be one size, found {}", attrs.get_dims("value").size()));
  return {{attrs.get_dtype("dtype"), {}}};
}

OpDef indexed(std::string name, int min_inputs, int max_inputs) {
  return {.name = std::move(name),
          .kind = OpKind::kIndexed,
          .min_inputs = min_inputs,
          .max_inputs = max_inputs};
}

}  // namespace

std::vector<OpDef> indexed_ops() {
  OpDef gather = indexed("Gather", 2, 2);
  gather.attrs = {{"axis", AttrKind::kInt, std::nullopt}};
  gather.infer = infer_gather;
  gather.evaluate = reference::evaluate_gather;
  gather.detail = TakeDef{map_gather};

  OpDef take = indexed("Take", 2, -1);
  take.infer = infer_take;
  take.evaluate = reference::evaluate_take;
  take.detail = TakeDef{[](const Attrs&, Types inputs, std::span<const Dim> index) {
    return map_indices(1, inputs, index);
  }};

  OpDef scatter = indexed("Scatter", 3, -1);
  scatter.attrs = {{"combine", AttrKind::kString, Attr(std::string("none"))},
                   {"distinct", AttrKind::kInt, Attr(std::int64_t{0})}};
  scatter.infer = infer_scatter;
  scatter.evaluate = reference::evaluate_scatter;
  scatter.detail = ScatterDef{[](const Attrs&, Types inputs, std::span<const Dim> index) {
                                return map_indices(2, inputs, index);
                              },
                              [](const Attrs& attrs) { return combine_attr(attrs, true); }};

  OpDef iota = indexed("Iota", 0, 0);
  iota.attrs = {{"shape", AttrKind::kDims, std::nullopt},
                {"axis", AttrKind::kInt, Attr(std::int64_t{0})},
                {"dtype", AttrKind::kDType, Attr(DType::kInt64)}};
  iota.infer = infer_iota;
  iota.evaluate = reference::evaluate_iota;
  iota.detail = GenerateDef{[](const Attrs& attrs, std::span<const Dim> index) {
    return index[static_cast<std::size_t>(attrs.get_int("axis"))];
  }};

  OpDef size = indexed("Size", 0, 0);
  size.attrs = {{"value", AttrKind::kDims, std::nullopt},
                {"dtype", AttrKind::kDType, Attr(DType::kInt64)}};
  size.infer = infer_size;
  size.evaluate = reference::evaluate_size;
  size.detail = GenerateDef{
      [](const Attrs& attrs, std::span<const Dim>) { return attrs.get_dims("value").at(0); }};
  return {gather, take, scatter, iota, size};
}

}  // namespace sinter::ir::ops
