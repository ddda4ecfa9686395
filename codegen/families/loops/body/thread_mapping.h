// How a schedule's threads walk a program's loops: the text around a kernel's body.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/arguments.h"
#include "codegen/emit/assemble.h"
#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// A loop dimension's index in device code. Within a vector it is the first element's.
struct LoopIndex {
  std::string text = "0";
  bool wide = false;                    // i64, else i32
  std::optional<std::int64_t> max = 0;  // largest value, if known
};

/// A function that a block calls before it does anything else, number `block` of `blocks` times.
struct RowsFunction {
  std::string name, text;
  ir::Dim blocks;
  std::vector<std::uint32_t> sizes;  // expressions: its parameters between the buffers and `block`
  std::vector<std::pair<std::uint32_t, std::int64_t>> weights;  // its buffers that may be fetched
                                                                // at once, and their bytes
};

struct ThreadMapping {
  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::uint32_t kScratchValue = 8;  // bytes for each value of scratch

  const Schedule* schedule = nullptr;
  DimSet thread_dims = 0;               // fixed for a thread
  DimSet loop_dims = 0;                 // walked in the loop over a thread's vectors
  std::vector<LoopIndex> indices;       // of each loop dimension
  std::vector<std::string> prologue;    // declares the indices in thread_dims
  std::string loop_header;              // empty: one vector, no loop
  std::vector<std::string> loop_lines;  // declares the indices in loop_dims
  std::string group_header;             // a loop around the loop: its loads are issued first
  std::string predicate;                // holds for vectors that exist; empty: always
  std::string live_row;                 // holds in threads whose row exists; empty: always
  std::string leader;                   // holds in the thread that writes a row's values
  std::string reduce, reduce_sizes;     // "reduce_block" and ", 8"; empty: one thread has it all
  std::string reduce_tail;              // further arguments of `reduce`: ", rank"
  std::string scan, scan_sizes;         // "scan_block" and ", 8"
  std::size_t scratch = 0;              // shared values that each reduction or scan needs
  std::uint32_t scratch_offset = 0;     // where they are in dynamic shared memory; 0: static
  std::string turn_header;              // a loop around that of the passes; empty: none
  std::vector<std::string> turn_lines;  // declares what its turns differ in
  std::string pass_header;              // a loop around all behind the prologue; empty: none
  std::vector<std::string> pass_lines;  // declares what the loop's passes differ in
  bool unroll_passes = false;
  // Functions of vectors in registers, where a thread computes with other elements than it loads
  // and stores: of a vector either way, and one that loads what all rows share. Empty: none.
  std::string exchange, load_exchanged;
  std::string passes;  // how many; empty unless loads of rows are issued some passes ahead
  std::vector<std::string> behind_preload;  // what loads are issued ahead of
  std::vector<bool> given_loads;            // not empty: of all loads these alone are
  std::vector<std::string> epilogue;        // behind everything
  std::shared_ptr<const ThreadMapping>
      tail;  // a loop for the elements behind the last whole vector
  std::shared_ptr<const Schedule> tail_schedule;
  bool is_tail = false;
  std::shared_ptr<const ThreadMapping>
      turned;  // family transpose: how a block's loads fill its tiles
  std::shared_ptr<const Schedule> turned_schedule;
  /// A load whose value is a matrix product's, not memory's.
  struct ProductRead {
    std::size_t load = kNone;
    std::string sums;    // the name of a vector of it
    std::string vector;  // arguments of Tile::sum for that
  };
  std::vector<ProductRead> products;
  std::optional<RowsFunction> rows;  // family product: what makes the left operand's rows
  std::vector<MapParameter> maps;    // parameters behind the kernel's arguments
  ir::Dim blocks;                    // size of the grid
  std::vector<std::uint32_t> block;  // threads

  const ProductRead* product_read(std::size_t load) const {
    for (const ProductRead& read : products)
      if (read.load == load) return &read;
    return nullptr;
  }
  bool unrolled() const { return schedule->unroll > 1; }
  bool looped() const { return schedule->looped(); }
};

/// Number of vectors in the dimensions `dims`, where the schedule's vector dimension counts
/// vectors and its tiles' dimension tiles.
ir::Dim count_vectors(const ProgramAnalysis& analysis, const Schedule& schedule, DimSet dims);

/// The block's number as u32 or u64.
std::string block_text(const ProgramAnalysis& analysis, bool wide);

/// True if values up to `count` need 64 bits.
bool needs_wide(const ProgramAnalysis& analysis, const ir::Dim& count);

/// `layout` for elements that no whole vector of `schedule` has, one at a time, `unroll` of them
/// loaded ahead; its loop is still to be written.
std::shared_ptr<ThreadMapping> make_tail(const ThreadMapping& mapping, const Schedule& schedule,
                                         int unroll);

/// Splits the number `flat` (u32, or u64 if `wide`) into the indices of `dims`: sets their
/// mapping.indices and appends their declarations to `lines`. `bound`: flat is below it, if known.
void split_index(const ProgramAnalysis& analysis, Arguments& args, DimSet dims,
                 const std::string& flat, bool wide, ThreadMapping& mapping,
                 std::vector<std::string>& lines, std::optional<std::int64_t> bound = std::nullopt);

}  // namespace sinter::codegen
