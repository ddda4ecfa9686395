// SPDX-License-Identifier: Apache-2.0
// Inputs of a kernel's body, and facts about each of its values.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/approximations.h"
#include "codegen/emit/code_text.h"
#include "codegen/families/loops/body/print_index.h"
#include "codegen/families/loops/body/thread_mapping.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using InstrSet = std::vector<bool>;
/// Indices of the members, ascending.
std::vector<std::size_t> members(const InstrSet& set);

struct BodyState {
  BodyState(const ProgramAnalysis& analysis, Arguments& args, const ThreadMapping& mapping,
            CodeText& code);
  BodyState(const BodyState&) = delete;

  const Schedule& schedule() const { return loop->schedule; }
  int vector() const { return schedule().vector; }
  bool is_live(std::size_t i) const { return math.is_live(i); }
  bool is_load(std::size_t i) const { return analysis.instr(i).kind == plan::fb::InstrKind::Load; }
  bool is_store(std::size_t i) const { return plan::is_store(analysis.instr(i).kind); }
  bool in_loop(std::size_t i) const { return (analysis.value(i).dims & mapping.loop_dims) != 0; }
  bool per_element(std::size_t i) const;
  bool gathers_by_element(std::size_t i) const;
  /// All values that instruction `i` depends on, including indices.
  std::vector<std::uint32_t> operands(std::size_t i) const;

  // Loads and stores.

  bool is_vector(std::size_t i) const { return schedule().vector_access[analysis.instr(i).access]; }
  /// Loads issued before any of them is waited for.
  bool is_preloaded(std::size_t i) const;
  /// Data of single rows, in whole vectors: loaded while earlier passes compute.
  bool is_passes_ahead(std::size_t i) const;
  /// Data that all rows share, in whole vectors, loaded by the first pass over its columns.
  bool is_of_all_passes(std::size_t i) const;
  /// Passes through a tile in shared memory.
  bool is_transposed(std::size_t i) const {
    return mapping.tile_loads && mapping.schedule().as<TileTranspose>().values[i];
  }
  /// The result of a GEMM's mainloop, or of a user's kernel, in registers; null for loads from
  /// memory.
  const GemmEpilogue::ProductLoad* product(std::size_t i) const;
  /// A vector load of data that all rows share, already in the layout of the computation.
  bool loads_exchanged(std::size_t i) const;
  /// A value that threads exchange before they compute with it.
  bool is_exchanged(std::size_t i) const {
    return !mapping.gemm.exchange.empty() && !loads_exchanged(i);
  }

  // Columns with vectors: a thread has a vector of adjacent rows.

  bool has_row_vectors() const { return schedule().is<ColumnParameters>() && vector() > 1; }
  /// Varies across the rows of a thread's vector, not along their elements.
  bool is_row_vector(std::size_t i) const;

  // Rows that each pass reloads or recomputes.

  bool is_lean() const { return schedule().reduction().lean; }
  /// Lean: passes recompute from the vector instead of keeping results in registers.
  bool is_held(std::size_t i, int stage) const {
    return is_lean() && stage > 0 && is_load(i) && is_vector(i) && is_preloaded(i) && !staged[i];
  }
  /// Passes of a warp have no barrier in between: all its vectors pass through hold() together.
  bool holds_all() const { return schedule().threads_x <= 32 && schedule().unroll > 2; }
  bool is_reduction_or_scan(std::size_t i) const {
    const plan::fb::InstrKind kind = analysis.instr(i).kind;
    return kind == plan::fb::InstrKind::Reduce || kind == plan::fb::InstrKind::Scan;
  }
  /// Whether pass `stage` accumulates into reduction or scan `i`.
  bool accumulates_in(std::size_t i, int stage) const {
    return is_reduction_or_scan(i) && analysis.value(i).stage == stage + 1;
  }
  /// A looping thread with vectors has one accumulator for each of their elements; elements after
  /// the last whole vector go to the first one.
  bool has_vector_sums() const {
    return vector() > 1 && (schedule().looped() || has_row_vectors());
  }

  const ProgramAnalysis& analysis;
  Arguments& args;
  const ThreadMapping& mapping;
  const VectorLoop* loop;  // current loop
  CodeText& code;
  const Approximations math;
  IndexPrinter index;
  std::vector<std::size_t> live;      // instructions that some store needs, in the forms that
                                      // `math` chooses
  std::vector<std::string> names;     // text of each value, where defined
  std::vector<std::string> inverses;  // text of reciprocals of divisors
  std::vector<const char*> inverse_functions;  // functions that compute them
  std::vector<std::string> pointers;           // start of a thread's part of the buffer, by access
  InstrSet kept, divides, staged;
  InstrSet grouped;            // loads of the looping thread's current group of vectors
  InstrSet uniform;            // same for all elements of a vector
  std::string keep_subscript;  // "[k][j]"
  std::string slot;            // windows: "[s]"

 private:
  void find_staged();
  void find_kept();
};

}  // namespace sinter::codegen
