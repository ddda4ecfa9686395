// Tensor maps as parameters of a kernel: what the copy engine (TMA) is told of its operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/plan/expr_table.h"
#include "plan_generated.h"

namespace sinter::codegen {

/// Elements that a copy has of a row of 128 bytes: of so many bytes each, and of 16 bits.
constexpr int box_columns(int element_bytes) { return 128 / element_bytes; }
inline constexpr int kBoxColumns = box_columns(2);
/// Dimensions of a batch of matrices: a tensor map has five.
inline constexpr std::size_t kMostMappedBatch = 3;

/// A parameter that is a tensor map; its buffers are the program's.
struct MapParameter {
  std::string name;
  plan::fb::TensorMapT map;

  std::string declaration() const { return "const __grid_constant__ TensorMap " + name; }
};

/// Where a batch of matrices lies, in elements; columns are contiguous. Stride 0: all share it.
struct MappedMatrices {
  std::uint32_t buffer = 0;  // of the plan
  Dim offset, columns, rows, stride;
  std::vector<Dim> batch, batch_strides;
};

/// The map of boxes of `columns` columns and `box_rows` rows. What all of a dimension share has any
/// stride in it, and in the batch one place.
MapParameter matrix_map(std::string name, const MappedMatrices& matrices, int box_rows,
                        ExprTable& exprs, int columns = kBoxColumns);

}  // namespace sinter::codegen
