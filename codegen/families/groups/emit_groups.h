// SPDX-License-Identifier: Apache-2.0
// Kernels that group indices by value and combine rows by group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// GroupByIndex. Up to a tile of indices one block sorts; of more, memory is cleared,
/// digits are counted, and each takes a kernel.
struct IndexGroups {
  std::uint32_t index = 0, order = 0, starts = 0;  // plan buffers
  DType index_type = DType::kInt64;
  Dim count, rows;

  /// Passes over digits of eight bits.
  int passes(const ExprTable& exprs) const;
  /// One block does all; it finds the starts, too, of so few rows.
  bool is_tile(const ExprTable& exprs) const;
  bool has_few_rows(const ExprTable& exprs) const;
  /// Counts and records, up to two buffers of keys, up to two of positions.
  std::vector<Dim> scratch_bytes(const ExprTable& exprs) const;
};
/// How many kernels follow the first.
std::size_t kernels_behind(const IndexGroups& groups, const ExprTable& exprs);
EmittedKernel emit_index_groups(const IndexGroups& groups,
                                const std::vector<std::uint32_t>& scratch,
                                const KernelRequest& request, ExprTable& exprs);

/// LastByIndex.
struct LastIndex {
  std::uint32_t index = 0, last = 0;
  DType index_type = DType::kInt64;
  Dim count, rows;
};
EmittedKernel emit_last_index(const LastIndex& last, const KernelRequest& request,
                              ExprTable& exprs);

/// CombineGroups.
struct GroupSums {
  std::uint32_t data = 0, values = 0, order = 0, starts = 0, rows_buffer = 0;  // plan buffers
  std::optional<std::uint32_t> factors;
  DType dtype = DType::kFloat32, order_type = DType::kInt32;
  Combine combine = Combine::kSum;
  Dim rows, width, sources, count;
  bool is_filled = false;  // data is one element

  /// Whether a group may be so long that it is divided.
  bool may_be_long(const ExprTable& exprs) const;
  Dim parts_bytes(const ExprTable& exprs) const;
};
EmittedKernel emit_group_sums(const GroupSums& sums, std::optional<std::uint32_t> parts,
                              const KernelRequest& request, ExprTable& exprs);

/// CombineTable.
struct TableSums {
  std::uint32_t data = 0, values = 0, index = 0, rows_buffer = 0;
  DType dtype = DType::kFloat32, index_type = DType::kInt64;
  Combine combine = Combine::kSum;
  std::int64_t rows = 0, width = 0;
  Dim count;
  bool is_filled = false;

  /// Threads of a block share one table, as the order does not matter.
  bool has_cells() const;
  Dim blocks(const DeviceModel& device, const ExprTable& exprs) const;
  Dim parts_bytes(const DeviceModel& device, const ExprTable& exprs) const;
};
EmittedKernel emit_table_sums(const TableSums& sums, std::uint32_t parts,
                              const KernelRequest& request, ExprTable& exprs);

/// CombineTable of a result of any size: cells in memory, in which any order gives the same bits.
struct CellSums {
  std::uint32_t data = 0, values = 0, index = 0, rows_buffer = 0;
  DType dtype = DType::kFloat32, index_type = DType::kInt64;
  std::optional<Combine> combine;  // none: the last value stays
  Dim rows, width, count;
  bool is_filled = false, by_element = false;

  /// Cells; of sums of floats also a word for each cell, and what all share.
  std::vector<Dim> scratch_bytes() const;
  std::size_t kernels(const ExprTable& exprs) const;
};
EmittedKernel emit_cell_sums(const CellSums& sums, const std::vector<std::uint32_t>& scratch,
                             const KernelRequest& request, ExprTable& exprs);

}  // namespace sinter::codegen
