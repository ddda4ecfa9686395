// SPDX-License-Identifier: Apache-2.0
// How a schedule's threads traverse a program's loops: the text around a kernel's body.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/arguments.h"
#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// Index of a loop dimension in device code; within a vector, that of the first element.
struct LoopIndex {
  std::string text = "0";
  bool wide = false;                    // i64 instead of i32
  std::optional<std::int64_t> max = 0;  // largest value, if known
};

/// The loop over a thread's vectors.
struct VectorLoop {
  Schedule schedule;               // its vector layout
  std::string header;              // empty: one vector, no loop
  std::vector<std::string> lines;  // declarations of the indices in loop_dims
  std::string group_header;        // an enclosing loop that issues the loads of a group first
  std::string predicate;           // true for vectors that exist; empty: all

  bool unrolled() const { return schedule.unroll > 1; }
};

/// How threads combine their parts of a row.
struct RowReduction {
  std::string reduce, reduce_sizes;  // "reduce_block" and ", 8"; empty: one thread has the whole
                                     // row
  std::string reduce_tail;           // more arguments of `reduce`: ", rank"
  std::string expect;                // prepares scratch for data from other blocks; empty: none
  std::string scan, scan_sizes;      // "scan_block" and ", 8"
  bool scan_line = false;            // scans take the records of a row's tiles
  std::size_t scratch = 0;           // shared values of each reduction or scan
  std::uint32_t scratch_offset = 0;  // in dynamic shared memory; 0: static

  static constexpr std::uint32_t kScratchValue = 8;  // bytes of a scratch value
  /// scratch_offset of the data that blocks of a cluster exchange: not zero.
  static constexpr std::uint32_t kClusterScratch = 128;
};

/// A loop around everything after the prologue.
struct PassLoop {
  std::string header;              // empty: none
  std::vector<std::string> lines;  // declarations that differ by pass
  bool unroll = false;
  std::string count;  // number of passes; empty unless row loads are issued passes ahead
  // True in the first pass over new columns; empty: each pass loads what it needs.
  std::string has_new_columns;
};

/// Specific to epilogues of GEMMs and of user kernels.
struct GemmEpilogue {
  std::string tile_loop_header;              // a loop around that of the passes; empty: none
  std::vector<std::string> tile_loop_lines;  // declarations that differ by tile
  // Functions on vectors in registers, if a thread computes with other elements than it loads and
  // stores: exchange of a vector, in both directions, and a load of data that all rows share.
  // Empty: none.
  std::string exchange, load_exchanged;
  /// A load whose value is the mainloop's result instead of memory.
  struct ProductLoad {
    std::size_t load;
    std::string element;  // its text for single elements
    std::string sums;     // name of the vector of results
    std::string vector;   // arguments of Tile::sum for it
  };
  std::vector<ProductLoad> products;
};

struct ThreadMapping {
  DimSet thread_dims = 0;             // fixed for a thread
  DimSet loop_dims = 0;               // traversed by the loop over a thread's vectors
  std::vector<LoopIndex> indices;     // for each loop dimension
  std::vector<std::string> prologue;  // declarations of the indices in thread_dims
  VectorLoop loop;
  std::optional<VectorLoop> tail;        // over the elements after the last whole vector
  std::optional<VectorLoop> tile_loads;  // transpose: how a block's loads fill its tiles
  std::string load_guard;                // loads happen only where it is true; empty: everywhere
  std::string live_row;                  // true in threads whose row exists; empty: all
  std::string leader;                    // true in the thread that writes a row's values
  RowReduction reduction;
  PassLoop passes;
  GemmEpilogue gemm;
  std::vector<std::string> behind_preload;  // statements after the loads that are issued ahead
  std::vector<bool> given_loads;            // if not empty, only these loads are issued ahead
  std::vector<std::string> epilogue;        // at the end
  ir::Dim blocks;                           // size of the grid
  std::vector<std::uint32_t> block;         // threads

  const Schedule& schedule() const { return loop.schedule; }
};

/// A mapping with only the schedule, threads and indices set; `loop_dims` are the loop's
/// dimensions.
ThreadMapping start_mapping(const ProgramAnalysis& analysis, const Schedule& schedule,
                            DimSet thread_dims, DimSet loop_dims);

/// Number of vectors in `dims`: the schedule's vector dimension counts in vectors, its tile
/// dimension in tiles.
ir::Dim count_vectors(const ProgramAnalysis& analysis, const Schedule& schedule, DimSet dims);

/// The block's index as u32 or u64.
std::string block_text(const ProgramAnalysis& analysis, bool wide);

/// True if values up to `count` need 64 bits.
bool needs_wide(const ProgramAnalysis& analysis, const ir::Dim& count);
inline const char* count_type(bool wide) { return wide ? "u64" : "u32"; }

/// Splits the linear index `flat` (u32, or u64 if `wide`) into the indices of `dims`. Sets their
/// mapping.indices, appends declarations to `lines`. `bound`: exclusive bound of `flat`, if known.
void split_index(const ProgramAnalysis& analysis, Arguments& args, DimSet dims,
                 const std::string& flat, bool wide, ThreadMapping& mapping,
                 std::vector<std::string>& lines, std::optional<std::int64_t> bound = std::nullopt);

/// A function that computes vector `flat` of a program; its index is u64 if `wide`, otherwise u32.
struct VectorFunction {
  ThreadMapping mapping;
  bool wide = false;
};
VectorFunction map_vector(const ProgramAnalysis& analysis, const Schedule& schedule,
                          Arguments& args);

/// Declares `row`, an index below `rows` of which a block has `rows_of_block`, and the indices of
/// `dims`. Threads without a row exit if `may_leave`. Otherwise they duplicate row 0, as shuffles
/// and barriers need them, and store nothing.
void place_rows(const ProgramAnalysis& analysis, Arguments& args, DimSet dims, std::string row,
                const ir::Dim& rows, int rows_of_block, bool may_leave, ThreadMapping& mapping);

/// The loop over a row's vectors along `dims`. `threads` neighbours take one vector each, starting
/// at `first`; the threads of a row process `at_once` vectors per unrolled iteration.
void walk_row(const ProgramAnalysis& analysis, Arguments& args, DimSet dims,
              const std::string& first, int threads, int at_once, ThreadMapping& mapping);

/// A loop over the elements that no whole vector of `mapping` covers. `header` or `lines` declare
/// their index "e" (u64 if `wide`); `unroll` of them are loaded ahead.
void add_tail(const ProgramAnalysis& analysis, Arguments& args, std::string header,
              std::vector<std::string> lines, int unroll, bool wide, ThreadMapping& mapping);

}  // namespace sinter::codegen
