// A loop program under construction: instructions are shared where equal, addresses are still Dims.
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

/// A gathered index in an address: gather_symbol(position) stands for the value, which lies in
/// [0, extent) once negative values have been counted from the end.
struct GatherIndex {
  std::uint32_t value = 0;  // instruction
  Dim extent;
};

class LoopBuilder {
 public:
  /// `space` gives the loops and the ranges of their variables.
  LoopBuilder(const LoopSpace& space, ExprTable& exprs);

  std::uint32_t constant(DType type, double value);
  std::uint32_t integer(DType type, std::int64_t value);
  std::uint32_t size(DType type, const Dim& value);
  /// An i64 value of an expression over loop variables.
  std::uint32_t index_value(const Dim& value);
  /// Operands of another type than the operation needs are cast; a cast to the same type is none.
  /// `declared`: the graph's type for the result, which may round more coarsely.
  std::uint32_t op(ScalarOp op, DType type, std::vector<std::uint32_t> args);
  std::uint32_t op(ScalarOp op, DType type, std::vector<std::uint32_t> args, DType declared);
  std::uint32_t reduce(Combine combine, std::uint32_t value);
  /// The running combination of `value` along the row.
  std::uint32_t scan(Combine combine, std::uint32_t value, bool exclusive);
  /// bool: whether every guard holds.
  std::uint32_t holds(std::span<const ir::ViewSource::Guard> guards);
  /// `address` in elements of plan buffer `buffer`, over loop variables and gathered indices.
  /// Throws Error(kUnsupported) if a gathered index occurs other than linearly.
  std::uint32_t load(std::uint32_t buffer, DType type, const Dim& address,
                     std::span<const ir::ViewSource::Guard> guards, double fill);
  void store(std::uint32_t buffer, const Dim& address, std::uint32_t value);
  /// Changes what lies at `address` by `value`, or replaces it.
  void scatter(std::uint32_t buffer, const Dim& address, std::uint32_t value,
               std::optional<Combine> combine);

  /// Registers a gathered index; returns its symbol as a Dim. Equal ones get one symbol.
  Dim gather(std::uint32_t value, const Dim& extent);
  /// True if `index` is a gathered index along a dimension of one element: it adds nothing to an
  /// address, but has to be in it, as an access checks the indices that it gathers with.
  bool is_check(const Dim& index) const;
  /// Ranges of the graph's symbols, the loop variables and the gathered indices.
  const Ranges& ranges() const { return ranges_; }
  DType type(std::uint32_t instr) const { return static_cast<DType>(instrs_[instr].dtype); }

  /// A split that would make an address linear which is not, if there is one.
  const std::optional<SplitRequest>& wanted_split() const { return wanted_split_; }
  void want_split(const Dim& address);

  /// Merges loops and numbers the tables.
  LoopProgramT finish();

 private:
  struct Access {
    std::uint32_t buffer = 0;  // position in buffers_
    Dim offset;
    std::vector<Dim> strides;
    std::vector<std::pair<std::size_t, Dim>> gathers;  // gather index, stride
    Dim rest;
    std::vector<ir::ViewSource::Guard> guards;
    double fill = 0;
  };

  /// Loops first..last as one.
  struct Merged {
    std::size_t first = 0, last = 0;
    Dim extent;
    bool inner = false;
  };

  std::uint32_t push(InstrT instr);
  std::uint32_t loop_index(const std::string& symbol);
  std::uint32_t access(std::uint32_t buffer, const Dim& address,
                       std::span<const ir::ViewSource::Guard> guards, double fill);
  std::vector<Merged> merge_loops() const;
  /// `dim` with zero for gathered indices that add nothing: see is_check.
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
