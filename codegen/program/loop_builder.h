// SPDX-License-Identifier: Apache-2.0
// A loop program under construction: equal instructions are shared, addresses are still Dims.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/plan/expr_table.h"
#include "codegen/program/index_space.h"
#include "ir/op_def.h"

namespace sinter::codegen {

/// A gathered index in an address. gather_symbol(position) is its value, in [0, extent) after
/// negative values are counted from the end.
struct GatherIndex {
  std::uint32_t value = 0;  // instruction
  Dim extent;
};

class LoopBuilder {
 public:
  /// `space` has the loops and the ranges of their variables.
  LoopBuilder(const LoopSpace& space, ExprTable& exprs);

  std::uint32_t constant(DType type, double value);
  std::uint32_t integer(DType type, std::int64_t value);
  std::uint32_t size(DType type, const Dim& value);
  /// The value of an expression over loop variables, as i64.
  std::uint32_t index_value(const Dim& value);
  /// Casts operands whose type the operation does not take; omits casts to the same type.
  /// `declared` is the graph's type of the result, which may have less precision.
  std::uint32_t op(ScalarOp op, DType type, std::vector<std::uint32_t> args);
  std::uint32_t op(ScalarOp op, DType type, std::vector<std::uint32_t> args, DType declared);
  std::uint32_t reduce(Combine combine, std::uint32_t value);
  /// The running combination of `value` along the row.
  std::uint32_t scan(Combine combine, std::uint32_t value, bool exclusive);
  /// A bool: true if every guard holds.
  std::uint32_t holds(std::span<const ir::ViewSource::Guard> guards);
  /// `address` is in elements of plan buffer `buffer`, over loop variables and gathered indices.
  /// Throws Error(kUnsupported) if it is not linear in a gathered index.
  std::uint32_t load(std::uint32_t buffer, DType type, const Dim& address,
                     std::span<const ir::ViewSource::Guard> guards, double fill);
  void store(std::uint32_t buffer, const Dim& address, std::uint32_t value);
  /// Combines the value at `address` with `value`, or replaces it.
  void scatter(std::uint32_t buffer, const Dim& address, std::uint32_t value,
               std::optional<Combine> combine);

  /// Registers a gathered index and returns its symbol; equal ones share a symbol.
  Dim gather(std::uint32_t value, const Dim& extent);
  /// True if `index` is gathered along a dimension of extent 1. It adds 0 to an address, but must
  /// be in it, as the access checks its gathered indices.
  bool is_check(const Dim& index) const;
  /// Ranges of the graph's symbols, the loop variables and the gathered indices.
  const Ranges& ranges() const { return ranges_; }
  DType type(std::uint32_t instr) const { return static_cast<DType>(instrs_[instr].dtype); }

  /// A split that would make a nonlinear address linear, if one was found.
  const std::optional<SplitRequest>& wanted_split() const { return wanted_split_; }
  void want_split(const Dim& address);

  /// Merges loops, if they may be, and numbers the tables.
  LoopProgramT finish(bool merges = true);

 private:
  struct Access {
    std::uint32_t buffer = 0;  // position in buffers_
    Dim offset;
    std::vector<Dim> strides;
    std::vector<std::pair<std::size_t, Dim>> gathers;  // index into gathers, stride
    Dim rest;
    std::vector<ir::ViewSource::Guard> guards;
    double fill = 0;
  };

  /// Loops first .. last, merged into one.
  struct Merged {
    std::size_t first = 0, last = 0;
    Dim extent;
    bool inner = false;
  };

  std::uint32_t push(InstrT instr);
  std::uint32_t loop_index(const std::string& symbol);
  std::uint32_t access(std::uint32_t buffer, const Dim& address,
                       std::span<const ir::ViewSource::Guard> guards, double fill);
  std::vector<Merged> merge_loops(bool merges) const;
  /// `dim` with gathered indices that are only checks set to zero: see is_check().
  Dim without_checks(const Dim& dim) const;

  const LoopSpace& space_;
  ExprTable& exprs_;
  Ranges ranges_;
  std::vector<std::string> loop_symbols_;
  std::vector<InstrT> instrs_;
  std::vector<Access> accesses_;
  std::vector<std::uint32_t> buffers_;
  std::vector<GatherIndex> gathers_;
  std::map<std::string, std::uint32_t> instr_by_key_, access_by_key_, gather_by_key_;
  std::optional<SplitRequest> wanted_split_;
};

}  // namespace sinter::codegen
