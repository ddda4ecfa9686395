// How a schedule's threads walk a program's loops: the text around a kernel's body.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/arguments.h"
#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// A loop dimension's index in device code. Within a vector it is the first element's.
struct LoopIndex {
  std::string text = "0";
  bool wide = false;                    // i64, else i32
  std::optional<std::int64_t> max = 0;  // largest value, if known
};

/// The loop over a thread's vectors.
struct VectorLoop {
  Schedule schedule;               // says what a vector is
  std::string header;              // empty: one vector, no loop
  std::vector<std::string> lines;  // declare the indices in loop_dims
  std::string group_header;        // a loop around the loop: its loads are issued first
  std::string predicate;           // holds for vectors that exist; empty: always

  bool unrolled() const { return schedule.unroll > 1; }
};

/// How threads combine what each of them has of a row.
struct RowReduction {
  std::string reduce, reduce_sizes;  // "reduce_block" and ", 8"; empty: one thread has it all
  std::string reduce_tail;           // further arguments of `reduce`: ", rank"
  std::string expect;            // gets scratch ready for what other blocks send; empty: none do
  std::string scan, scan_sizes;  // "scan_block" and ", 8"
  std::size_t scratch = 0;       // shared values that each reduction or scan needs
  std::uint32_t scratch_offset = 0;  // where they are in dynamic shared memory; 0: static

  static constexpr std::uint32_t kScratchValue = 8;  // bytes for each value of scratch
  /// scratch_offset of what the blocks of a cluster send each other: not zero.
  static constexpr std::uint32_t kClusterScratch = 128;
};

/// A loop around all behind the prologue.
struct PassLoop {
  std::string header;              // empty: none
  std::vector<std::string> lines;  // declare what the passes differ in
  bool unroll = false;
  std::string count;  // of passes; empty unless loads of rows are issued some passes ahead
  // Holds in the first of the passes over the same columns; empty: each loads what it needs.
  std::string has_new_columns;
};

/// What the epilogue of a GEMM, or of a user's kernel, has and no other kernel.
struct GemmEpilogue {
  std::string tile_loop_header;              // a loop around that of the passes; empty: none
  std::vector<std::string> tile_loop_lines;  // declare what its tiles differ in
  // Functions of vectors in registers, where a thread computes with other elements than it loads
  // and stores: of a vector either way, and one that loads what all rows share. Empty: none.
  std::string exchange, load_exchanged;
  /// A load whose value is the product's, not memory's.
  struct ProductLoad {
    std::size_t load;
    std::string element;  // its text where vectors are single elements
    std::string sums;     // the name of a vector of it
    std::string vector;   // arguments of Tile::sum for that
  };
  std::vector<ProductLoad> products;
};

struct ThreadMapping {
  DimSet thread_dims = 0;             // fixed for a thread
  DimSet loop_dims = 0;               // walked in the loop over a thread's vectors
  std::vector<LoopIndex> indices;     // of each loop dimension
  std::vector<std::string> prologue;  // declares the indices in thread_dims
  VectorLoop loop;
  std::optional<VectorLoop> tail;        // over the elements behind the last whole vector
  std::optional<VectorLoop> tile_loads;  // transpose: how a block's loads fill its tiles
  std::string live_row;                  // holds in threads whose row exists; empty: always
  std::string leader;                    // holds in the thread that writes a row's values
  RowReduction reduction;
  PassLoop passes;
  GemmEpilogue gemm;
  std::vector<std::string> behind_preload;  // what loads are issued ahead of
  std::vector<bool> given_loads;            // not empty: of all loads these alone are
  std::vector<std::string> epilogue;        // behind everything
  ir::Dim blocks;                           // size of the grid
  std::vector<std::uint32_t> block;         // threads

  const Schedule& schedule() const { return loop.schedule; }
};

/// With nothing but the schedule, threads and indices set; dimensions are walked by `loop_dims`.
ThreadMapping start_mapping(const ProgramAnalysis& analysis, const Schedule& schedule,
                            DimSet thread_dims, DimSet loop_dims);

/// Number of vectors in the dimensions `dims`, where the schedule's vector dimension counts
/// vectors and its tiles' dimension tiles.
ir::Dim count_vectors(const ProgramAnalysis& analysis, const Schedule& schedule, DimSet dims);

/// The block's number as u32 or u64.
std::string block_text(const ProgramAnalysis& analysis, bool wide);

/// True if values up to `count` need 64 bits.
bool needs_wide(const ProgramAnalysis& analysis, const ir::Dim& count);
inline const char* count_type(bool wide) { return wide ? "u64" : "u32"; }

/// Splits the number `flat` (u32, or u64 if `wide`) into the indices of `dims`: sets their
/// mapping.indices and appends their declarations to `lines`. `bound`: flat is below it, if known.
void split_index(const ProgramAnalysis& analysis, Arguments& args, DimSet dims,
                 const std::string& flat, bool wide, ThreadMapping& mapping,
                 std::vector<std::string>& lines, std::optional<std::int64_t> bound = std::nullopt);

/// How a function computes the vector number `flat` of a program: u64 if `wide`, else u32.
struct VectorFunction {
  ThreadMapping mapping;
  bool wide = false;
};
VectorFunction map_vector(const ProgramAnalysis& analysis, const Schedule& schedule,
                          Arguments& args);

/// Declares `row`, number `row` of `rows`, of which a block has `rows_of_block`, and the indices of
/// `dims`. Threads without one leave if `may_leave`; else they repeat row 0, as shuffles and
/// barriers need them, and write nothing.
void place_rows(const ProgramAnalysis& analysis, Arguments& args, DimSet dims, std::string row,
                const ir::Dim& rows, int rows_of_block, bool may_leave, ThreadMapping& mapping);

/// The loop over a row's vectors along `dims`, of which `threads` neighbours take one each, the
/// first one number `first`; all threads of a row have `at_once` for each of unroll.
void walk_row(const ProgramAnalysis& analysis, Arguments& args, DimSet dims,
              const std::string& first, int threads, int at_once, ThreadMapping& mapping);

/// A loop for elements that no whole vector of `mapping` has, one at a time: `header` or `lines`
/// declare their number "e" (u64 if `wide`); `unroll` of them are loaded ahead.
void add_tail(const ProgramAnalysis& analysis, Arguments& args, std::string header,
              std::vector<std::string> lines, int unroll, bool wide, ThreadMapping& mapping);

}  // namespace sinter::codegen
