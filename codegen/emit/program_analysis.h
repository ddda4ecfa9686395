// SPDX-License-Identifier: Apache-2.0
// Analysis of a loop program before a schedule is chosen.
#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// A set of loop dimensions, one bit each; dimension -1 is none.
using DimSet = std::uint64_t;
constexpr DimSet dim_bit(std::integral auto d) {
  return static_cast<std::int64_t>(d) < 0 ? 0 : DimSet{1} << d;
}

struct ValueInfo {
  DimSet dims = 0;    // loop dimensions on which the value (and a store's address) depends
  int stage = 0;      // length of the longest chain of reductions and scans before it
  bool live = false;  // some store needs it
};

/// A loop program with derived facts. Dimensions of extent 1 are ignored.
class ProgramAnalysis {
 public:
  /// Throws Error(kUnsupported) for a program that no kernel can implement, Error(kInternal) for an
  /// inconsistent one.
  ProgramAnalysis(const KernelRequest& request, ExprTable& exprs);

  const KernelRequest& request() const { return *request_; }
  const DeviceModel& device() const { return *request_->device; }
  const LoopProgramT& program() const { return *request_->program; }
  ExprTable& exprs() const { return *exprs_; }

  std::size_t rank() const { return program().extents.size(); }
  std::size_t outer_rank() const { return rank() - program().inner_dims; }
  DimSet outer_dims() const { return outer_; }
  DimSet inner_dims() const { return inner_; }
  /// Last dimension of `set` whose extent is not the constant 1; -1 if there is none.
  int last_dim(DimSet set) const;

  std::size_t instr_count() const { return program().instrs.size(); }
  const InstrT& instr(std::size_t i) const { return *program().instrs[i]; }
  const ValueInfo& value(std::size_t i) const { return values_[i]; }
  /// The instructions that some store needs, in order; the second form: only those of one kind.
  const std::vector<std::size_t>& live() const { return live_; }
  std::vector<std::size_t> live(plan::fb::InstrKind kind) const;
  /// The loads and stores among them.
  const std::vector<std::size_t>& live_accesses() const { return live_accesses_; }
  /// Whether the value differs between elements of a row.
  bool in_row(std::size_t i) const { return (values_[i].dims & inner_) != 0; }
  const plan::fb::AccessT& access(std::size_t a) const { return *program().accesses[a]; }
  /// Dimensions on which the address depends, and those including its guards.
  DimSet address_dims(std::size_t a) const { return address_dims_[a]; }
  DimSet access_dims(std::size_t a) const { return access_dims_[a]; }
  DimSet node_dims(std::size_t node) const { return node_dims_[node]; }
  const ir::Dim& stride(std::size_t a, std::integral auto d) const {
    return exprs_->dim(access(a).strides[static_cast<std::size_t>(d)]);
  }
  DType type_of(std::size_t i) const { return static_cast<DType>(instr(i).dtype); }
  DType buffer_type(std::size_t buffer) const { return request_->buffer_types[buffer]; }
  /// The element type in memory of a load or store.
  DType memory_type(std::size_t i) const { return buffer_type(access(instr(i).access).buffer); }
  std::size_t memory_bytes(std::size_t i) const { return size_of(memory_type(i)); }
  /// Number of reduction stages; values of the last stage depend on that many reductions.
  int stages() const { return stages_; }
  /// scatters(): some store has gathered indices. combines(): some such store combines with the old
  /// value, in the order of the row's elements.
  bool scatters() const { return scatters_; }
  bool combines() const { return combines_; }
  /// True if the program has a scan along rows.
  bool scans() const { return scans_; }
  bool is_read(std::size_t buffer) const { return read_[buffer]; }
  bool is_written(std::size_t buffer) const { return written_[buffer]; }

  const ir::Dim& extent(std::integral auto d) const {
    return exprs_->dim(program().extents[static_cast<std::size_t>(d)]);
  }
  /// Product of the extents in `set`.
  ir::Dim size_of_dims(DimSet set) const;
  ir::Dim row_count() const { return size_of_dims(outer_); }
  ir::Dim row_length() const { return size_of_dims(inner_); }

 private:
  void check() const;
  void find_node_dims();
  void find_values();
  void find_live();

  const KernelRequest* request_;
  ExprTable* exprs_;
  DimSet outer_ = 0, inner_ = 0;
  int stages_ = 0;
  bool scatters_ = false, combines_ = false, scans_ = false;
  std::vector<ValueInfo> values_;
  std::vector<std::size_t> live_, live_accesses_;
  std::vector<DimSet> address_dims_, access_dims_, node_dims_;
  std::vector<bool> read_, written_;
};

}  // namespace sinter::codegen
