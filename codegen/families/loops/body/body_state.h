// What a kernel's body is written from, and what is known of each of its values on the way.
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
/// In order.
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
  /// All values that instruction `i` is computed from, its indices too.
  std::vector<std::uint32_t> operands(std::size_t i) const;

  // Loads and stores.

  bool is_vector(std::size_t i) const { return schedule().vector_access[analysis.instr(i).access]; }
  /// Loads that are issued before anything waits for one of them.
  bool is_preloaded(std::size_t i) const;
  /// What each row has of its own, in whole vectors: loaded while passes before compute.
  bool is_passes_ahead(std::size_t i) const;
  /// What all rows share, in whole vectors, loaded by the first of the passes over its columns.
  bool is_of_all_passes(std::size_t i) const;
  /// Through a tile in shared memory.
  bool is_transposed(std::size_t i) const {
    return mapping.tile_loads && mapping.schedule().as<TileTranspose>().values[i];
  }
  /// The product of a GEMM's mainloop, or what a user's kernel has computed, which stands in
  /// registers; null for what memory has.
  const GemmEpilogue::ProductLoad* product(std::size_t i) const;
  /// A vector load of what all rows share, as the threads compute with it.
  bool loads_exchanged(std::size_t i) const;
  /// One that threads exchange before they compute with it.
  bool is_exchanged(std::size_t i) const {
    return !mapping.gemm.exchange.empty() && !loads_exchanged(i);
  }

  // Columns with vectors: a thread takes a vector of neighbouring rows.

  bool has_row_vectors() const { return schedule().is<ColumnParameters>() && vector() > 1; }
  /// What differs between the rows of a thread's vector, not between their elements.
  bool is_row_vector(std::size_t i) const;

  // Rows that pass after pass reads.

  bool is_lean() const { return schedule().reduction().lean; }
  /// Lean: what passes compute from a vector is computed anew, not held in registers.
  bool is_held(std::size_t i, int stage) const {
    return is_lean() && stage > 0 && is_load(i) && is_vector(i) && is_preloaded(i) && !staged[i];
  }
  /// Passes of a warp have no barrier between them: its vectors are held all at once.
  bool holds_all() const { return schedule().threads_x <= 32 && schedule().unroll > 2; }
  bool is_reduction_or_scan(std::size_t i) const {
    const plan::fb::InstrKind kind = analysis.instr(i).kind;
    return kind == plan::fb::InstrKind::Reduce || kind == plan::fb::InstrKind::Scan;
  }
  /// Whether pass `stage` combines elements into what a reduction or scan then is made of.
  bool accumulates_in(std::size_t i, int stage) const {
    return is_reduction_or_scan(i) && analysis.value(i).stage == stage + 1;
  }
  /// A looping thread with vectors has a result for each of their elements; what is left behind the
  /// last whole vector goes to the first.
  bool has_vector_sums() const {
    return vector() > 1 && (schedule().looped() || has_row_vectors());
  }

  const ProgramAnalysis& analysis;
  Arguments& args;
  const ThreadMapping& mapping;
  const VectorLoop* loop;  // that is being written
  CodeText& code;
  const Approximations math;
  IndexPrinter index;
  std::vector<std::size_t> live;      // instructions that some store needs, computed as `math` says
  std::vector<std::string> names;     // text of each value where it can be used
  std::vector<std::string> inverses;  // of values that divide elements: text of the reciprocal
  std::vector<const char*> inverse_functions;  // what computes it
  std::vector<std::string> pointers;  // of accesses: where a thread's part of the buffer begins
  InstrSet kept, divides, staged;
  InstrSet grouped;            // loads of the group of vectors that a looping thread is at
  InstrSet uniform;            // of all elements of a vector the same
  std::string keep_subscript;  // "[k][j]"
  std::string slot;            // windows: "[s]"

 private:
  void find_staged();
  void find_kept();
};

}  // namespace sinter::codegen
