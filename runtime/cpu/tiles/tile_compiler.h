// SPDX-License-Identifier: Apache-2.0
// Makes a TileProgram: classes, stages, schedule, registers.
#pragma once

#include <optional>
#include <vector>

#include "runtime/cpu/tiles/tile_program.h"

namespace sinter::runtime::cpu {

/// Elements of a tile: few enough that a handful of tiles stay in the first-level cache, many
/// enough to hide the cost of interpreting an instruction.
constexpr std::int64_t kTileElements = 2048;
/// Columns of a tile of rows side by side.
constexpr std::int64_t kAcrossColumns = 128;

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
  void find_needed();
  void choose_sizes();
  void emit_stages();
  void find_firsts();
  void join_reductions();
  bool may_slide(const TileInstr& reduce) const;
  void slide();
  void forward_stores();
  void join_chains();
  void join_chains(Stage& stage, const std::vector<int>& readers);
  void lay_out();
  void choose_streams(std::size_t instrs);
  void evaluate_uniforms();

  bool is_element_axis(std::size_t axis) const;
  /// Which values differ along the axis, as far as that can be seen.
  std::vector<bool> varying_along(std::size_t axis) const;
  /// Whether something is read in rows along the last axis at indices that are data.
  bool gathers_rows() const;
  ValueClass class_of(const BoundAccess& access) const;
  /// Arguments, and the values that gather an access.
  std::vector<std::uint32_t> operands_of(std::size_t instr) const;
  /// What an instruction of a stage reads, in the workspace or elsewhere.
  std::vector<std::uint32_t> operands_of(const TileInstr& instr) const;
  bool is_small(std::size_t instr) const;
  /// Whether what a store writes is so large that it should leave the caches out.
  bool is_past_cache(std::uint32_t access) const;
  static bool is_computed(const BoundAccess& access);
  std::uint64_t depends_of_nodes(const BoundAccess& access) const;
  /// Whether all elements of a load lie at offsets that are the same in all repetitions.
  bool has_steady_offsets(std::size_t instr) const;
  TileInstr translate(std::size_t instr) const;

  const plan::fb::LoopProgramT& program_;
  std::span<const std::int64_t> expressions_;
  int threads_;
  TileProgram& out_;
  BoundLoops loops_;
  std::size_t count_;  // instructions of the program

  // By instruction.
  std::vector<ValueClass> class_;
  std::vector<int> available_;  // the stage whose body can use it
  std::vector<int> cost_;       // of computing it from memory
  std::vector<bool> needed_, kept_;
  std::vector<std::uint64_t> depends_;  // on which axes, a bit each
  std::vector<std::uint64_t> node_depends_;
  std::vector<bool> steady_;         // the same in all repetitions of a tile
  bool keep_between_stages_ = true;  // tiles hold whole rows: values last from stage to stage

  int operations_ = 0;  // Ops on elements, and their work beyond one instruction each
  double work_ = 0;
};

}  // namespace sinter::runtime::cpu
