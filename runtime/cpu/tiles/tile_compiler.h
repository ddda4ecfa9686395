// SPDX-License-Identifier: Apache-2.0
// Compiles a TileProgram: value classes, stages, schedule, workspace.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/tiles/tile_guards.h"
#include "runtime/cpu/tiles/tile_program.h"

namespace sinter::runtime::cpu {

/// Elements of a tile: several tiles fit the L1 cache, and the overhead of interpreting an
/// instruction is amortized.
constexpr std::int64_t kTileElements = 2048;
/// Columns of an "across" tile, and its rows.
constexpr std::int64_t kAcrossColumns = 128, kAcrossRows = kTileElements / kAcrossColumns;

/// a / b rounded up; b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class TileCompiler {
 public:
  TileCompiler(const plan::fb::PlanT& plan, const plan::fb::LoopProgramT& program,
               std::span<const std::int64_t> expressions, int threads, TileProgram& result);
  void compile();

 private:
  void find_axes_of_values();
  std::optional<std::size_t> repeated_axis(std::size_t end) const;
  void choose_axes();
  void classify();
  void find_tables();
  std::optional<std::uint32_t> byte_of(std::size_t instr, std::vector<bool>& between) const;
  void evaluate_tables();
  void find_needed();
  void choose_sizes();
  void emit_stages();
  void find_firsts();
  void join_reductions();
  void join_byte_sums(Stage& stage, const std::vector<int>& readers);
  bool may_slide(const TileInstr& reduce) const;
  void slide();
  void forward_stores();
  void join_chains();
  void join_chains(Stage& stage, const std::vector<int>& readers);
  bool is_dequantized(const Stage& stage, std::span<const std::size_t> members) const;
  void shorten(const Stage& stage, std::span<const std::size_t> members,
               std::vector<Chain::Step>& steps) const;
  /// Whether chains take several rows at once.
  bool has_narrow_rows() const;
  /// Larger tiles for programs of which none is held in the workspace.
  void widen_streams();
  void lay_out();
  void choose_streams(std::size_t instrs);
  void evaluate_uniforms();

  bool is_element_axis(std::size_t axis) const;
  /// Whether an access whose elements are contiguous over the later axes has gaps along this one.
  bool breaks_runs(std::size_t axis) const;
  /// Whether a few operators read a value that varies along this axis, but not along later ones.
  bool repeats_columns(std::size_t axis) const;
  /// Values that vary along the axis; conservative where that is unknown.
  std::vector<bool> varying_along(std::size_t axis) const;
  /// Whether a load copies contiguous rows along the last axis from gathered places.
  bool gathers_rows() const;
  /// Whether rows along the last axis share the offsets of gathered columns.
  bool shares_offsets() const;
  ValueClass class_of(const BoundAccess& access) const;
  /// Arguments, and the indices of an access's gathers.
  std::vector<std::uint32_t> operands_of(std::size_t instr) const;
  /// Values that an instruction of a stage reads.
  std::vector<std::uint32_t> operands_of(const TileInstr& instr) const;
  bool is_small(std::size_t instr) const;
  /// Whether a store writes so much that it should bypass the caches.
  bool is_past_cache(std::uint32_t access) const;
  static bool is_computed(const BoundAccess& access);
  std::uint64_t depends_of_nodes(const BoundAccess& access) const;
  /// Whether the offsets of a load's elements are equal in all repetitions.
  bool has_steady_offsets(std::size_t instr) const;
  /// translate_op(): an Op as itself, also where a table replaces it.
  TileInstr translate(std::size_t instr) const;
  /// The gathers of a load that vary with the columns alone, if the others do not vary with them,
  /// and its columns' offsets can be kept from tile to tile; else 0.
  std::uint64_t gathers_of_columns(std::size_t instr) const;
  TileInstr translate_op(std::size_t instr) const;

  std::optional<GuardedProgram> guarded_;  // what is compiled instead of the given program
  const plan::fb::LoopProgramT& program_;
  std::span<const std::int64_t> expressions_;
  int threads_;
  TileProgram& out_;
  BoundLoops loops_;
  std::size_t count_;  // instructions of the program

  // By instruction.
  std::vector<ValueClass> class_;
  std::vector<int> available_;  // the first stage whose body can use it
  std::vector<int> cost_;       // of computing it from memory
  std::vector<bool> needed_, kept_;
  std::vector<std::uint32_t> byte_source_;  // of an Op that is a table: the load it is looked up by
  std::vector<bool> in_table_;              // computed, or read, when tables are made
  std::vector<std::uint64_t> depends_;      // bitmask of axes
  std::vector<std::uint64_t> node_depends_;
  std::vector<bool> steady_;         // equal in all repetitions of a tile
  bool keep_between_stages_ = true;  // tiles hold whole rows, so values persist between stages

  bool is_wide_ = false;  // see widen_streams()
  int operations_ = 0;    // Ops on elements; work_: their cost beyond one instruction each
  double work_ = 0;
};

}  // namespace sinter::runtime::cpu
