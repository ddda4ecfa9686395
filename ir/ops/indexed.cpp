// Operators that read at indices held in tensors.
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

/// Gather(data, indices) along "axis", as numpy.take: an index below zero counts from the end.
std::vector<TensorType> infer_gather(const Attrs& attrs, std::span<const TensorType> inputs) {
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

}  // namespace

std::vector<OpDef> indexed_ops() {
  OpDef gather;
  gather.name = "Gather";
  gather.kind = OpKind::kIndexed;
  gather.min_inputs = gather.max_inputs = 2;
  gather.attrs = {{"axis", AttrKind::kInt, std::nullopt}};
  gather.infer = infer_gather;
  gather.evaluate = reference::evaluate_gather;
  return {gather};
}

}  // namespace sinter::ir::ops
