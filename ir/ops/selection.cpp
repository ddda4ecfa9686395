// SPDX-License-Identifier: Apache-2.0
// SelectIndices(flags, before) {count} -> indices
//
// flags: bool [tiles, tile]; before: i64 [tiles], the number of true flags in the rows above each
// row; count: the number of true flags. indices: i64 [count], the row-major numbers of the true
// flags in ascending order. Tiles are selected independently of each other.
#include <fmt/format.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

constexpr std::int64_t kMostTile = 4096;

std::vector<TensorType> infer_select(const Attrs& attrs, Types inputs) {
  const Shape& flags = inputs[0].shape;
  if (inputs[0].dtype != DType::kBool || flags.size() != 2 || inputs[1].dtype != DType::kInt64)
    invalid("needs bool[tiles, tile] and i64[tiles], found " + list_types(inputs));
  if (!flags[1].is_constant() || flags[1].value() < 1 || flags[1].value() > kMostTile)
    invalid(fmt::format("a tile has {} flags, not 1 to {}", flags[1].to_string(), kMostTile));
  require_equal({flags[0]}, inputs[1].shape,
                [&] { return "there must be a number for each tile: " + list_types(inputs); });
  const Shape& count = attrs.get_dims("count");
  if (count.size() != 1) invalid(fmt::format("count must be one size, found {}", count.size()));
  return {{DType::kInt64, count}};
}

std::vector<Tensor> evaluate_select(const Attrs&, Tensors inputs, Types outputs) {
  const Tensor &flags = inputs[0], &before = inputs[1];
  const std::int64_t tile = flags.shape()[1], count = outputs[0].shape.at(0).value();
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count), 0);
  for (std::int64_t row = 0; row < flags.shape()[0]; ++row)
    for (std::int64_t i = row * tile, at = before.at_int(row); i < (row + 1) * tile; ++i)
      if (flags.at_int(i) != 0 && at >= 0 && at < count)
        indices[static_cast<std::size_t>(at++)] = i;
  return {Tensor::from_ints(DType::kInt64, {count}, indices)};
}

}  // namespace

std::vector<OpDef> selection_ops() {
  OpDef select;
  select.name = "SelectIndices";
  select.kind = OpKind::kLibrary;
  select.kernel = "selection";
  select.min_inputs = select.max_inputs = 2;
  select.attrs = {{"count", AttrKind::kDims, std::nullopt}};
  select.infer = infer_select;
  select.evaluate = evaluate_select;
  return {select};
}

}  // namespace sinter::ir::ops
