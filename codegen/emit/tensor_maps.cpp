// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/tensor_maps.h"

#include <utility>

namespace sinter::codegen {

MapParameter matrix_map(std::string name, const MappedMatrices& matrices, int box_rows,
                        ExprTable& exprs, int columns) {
  MapParameter result{std::move(name), {}};
  plan::fb::TensorMapT& map = result.map;
  map.buffer = matrices.buffer;
  map.offset = exprs.intern(matrices.offset);
  map.extents = {exprs.intern(matrices.columns), exprs.intern(matrices.rows)};
  const Dim stride = matrices.stride == Dim(0) ? matrices.columns : matrices.stride;
  map.strides = {exprs.intern(stride)};
  map.box = {static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(box_rows)};
  for (std::size_t axis = 0; axis < matrices.batch.size(); ++axis) {
    const bool shared = matrices.batch_strides[axis] == Dim(0);
    map.extents.push_back(exprs.intern(shared ? Dim(1) : matrices.batch[axis]));
    map.strides.push_back(exprs.intern(shared ? stride : matrices.batch_strides[axis]));
    map.box.push_back(1);
  }
  return result;
}

}  // namespace sinter::codegen
