// SPDX-License-Identifier: Apache-2.0
// TMA descriptors as kernel parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/plan/expr_table.h"
#include "plan_generated.h"

namespace sinter::codegen {

/// Columns of a box row of 128 bytes: for any element size, and for 16 bits.
constexpr int box_columns(int element_bytes) { return 128 / element_bytes; }
inline constexpr int kBoxColumns = box_columns(2);
/// Batch dimensions of matrices: a TMA descriptor has five dimensions.
inline constexpr std::size_t kMostMappedBatch = 3;

/// A parameter that is a tensor map; its buffers are the program's.
struct MapParameter {
  std::string name;
  plan::fb::TensorMapT map;

  std::string declaration() const { return "const __grid_constant__ TensorMap " + name; }
};

/// Layout of a batch of matrices, in elements; columns are contiguous. Stride 0: broadcast.
struct MappedMatrices {
  std::uint32_t buffer = 0;  // of the plan
  Dim offset, columns, rows, stride;
  std::vector<Dim> batch, batch_strides;
};

/// The descriptor of boxes of `columns` columns and `box_rows` rows. A broadcast dimension may have
/// any stride; a broadcast batch has one matrix.
MapParameter matrix_map(std::string name, const MappedMatrices& matrices, int box_rows,
                        ExprTable& exprs, int columns = kBoxColumns);

}  // namespace sinter::codegen
