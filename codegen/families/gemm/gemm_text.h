// SPDX-License-Identifier: Apache-2.0
// The text of a GEMM kernel; its tile writes the specific parts.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "codegen/emit/assemble.h"
#include "codegen/families/gemm/gemm_kernel.h"
#include "codegen/families/loops/body/thread_mapping.h"

namespace sinter::codegen {

/// A function that a block calls first, for `block` = 0 .. `blocks` - 1: computes the rows of the
/// GEMM's left operand.
struct PrologueFunction {
  std::string name, text;
  ir::Dim blocks;
  std::vector<std::uint32_t> sizes;  // expressions of the parameters between the buffers and
                                     // `block`
  std::vector<std::pair<std::uint32_t, std::int64_t>> weights;  // weight buffers that may be
                                                                // prefetched, with their bytes
};

/// The parts of a GEMM kernel's text.
struct GemmMapping {
  ThreadMapping epilogue;
  std::optional<PrologueFunction> prologue;
  std::vector<MapParameter> maps;  // parameters after the kernel's arguments
};

/// Builds the thread mapping of one variant. Lines precede the epilogue's statements, which the
/// mapping's loops enclose. Kernel parameters are numbered in order of first use.
class GemmText {
 public:
  GemmText(const ProgramAnalysis& analysis, const GemmSchedule& schedule, Arguments& args);

  GemmMapping make();

  const ProgramAnalysis& analysis() const { return analysis_; }
  const GemmProblem& problem() const { return problem_; }
  const GemmSchedule& schedule() const { return s_; }
  const GemmProgram& product() const { return product_; }
  ThreadMapping& mapping() { return mapping_; }
  /// The text of a size; if not constant, of type u32 or i64.
  std::string dim(const Dim& size) const { return args_.dim(size); }

  void line(std::string text) { mapping_.prologue.push_back(std::move(text)); }
  /// "i32(..)" of a size.
  std::string size(const Dim& size) const { return fmt::format("i32({})", args_.dim(size)); }
  static bool divides(const Dim& size, int by) {
    return size.is_constant() && size.value() % by == 0;
  }

  // The tile scheduler.

  /// Number of tiles in all batches; a cluster's tile counts once.
  Dim tiles() const;
  /// The coordinates of tile index `rest`: batch, `first_row` and `first_column`.
  std::vector<std::string> tile_coordinates(std::string rest);
  /// Begin and end of k for part `part` of split_k; appends their declarations to `lines`.
  std::pair<std::string, std::string> range_of_k(const std::string& part,
                                                 std::vector<std::string>& lines);

  /// The end of k of the tile's group: none of it if the rows have no group.
  std::string end_of_k(const std::string& begin, const std::string& end) const;
  /// Waits for the groups' first rows, unless they are known, and counts their tiles, which
  /// tile_coordinates() looks up.
  void count_group_tiles();

  // Operands. Each writes fields of `operands`.

  /// "a + 64 + i64(b0) * 128": the start of an operand's batch.
  std::string start(std::uint32_t buffer, const GemmOperand& operand);
  void write_strided_a();
  void write_strided_b();
  /// The left operand as StagedTile reads it: rows with a stride, or windows. The template argument
  /// of a kind other than rows with a stride: ", WindowRows<2, i32>".
  void write_rows_of_a();
  /// Begins the mainloop of a tile whose rows are named by a buffer.
  void begin_gathered();
  std::string reader_of_a() const;
  void write_packed_b();
  /// The tile's first column of the right operand, in its parts if they are adjacent.
  std::string column_of_b() const;
  /// Rows and columns of the tile within the matrix; constants if all tiles are full, which saves
  /// the kernel its checks.
  void write_rows();
  void write_columns();
  /// The left operand by a TMA descriptor, the right one by addresses.
  void write_mapped_a();
  /// Addresses of block scales for the tile's first row and column; empty if there are none.
  std::vector<std::string> block_scales();
  /// The tile's first row of the left operand; outside of it if the rows have no group.
  std::string mapped_row() const;
  /// Both operands by TMA descriptors; k or columns are innermost.
  std::vector<std::string> mapped_operands();

  // Programmatic launch.

  /// Lets the next kernel start, and prefetches data that rows share, such as a bias, into the L2
  /// before the mainloop ends.
  void begin_programmatic();
  /// "grid_dependency_wait();", or what a task waits by.
  std::string wait() const;
  /// The parts that wait for the preceding kernel.
  void write_behind_wait();

  // The epilogue.

  /// The kernel of a block with one tile: prologue, mainloop and epilogue.
  void write_one_tile();
  /// Computes the row index in the program from `row_of_matrix`, split into loop indices.
  void rows_from(const std::string& row_of_matrix, std::vector<std::string>& lines);
  /// Splits the column index `e` into loop indices.
  void split_columns(std::vector<std::string>& lines);
  /// Whether the instruction loads the GEMM's result.
  bool is_product(std::size_t instr) const;
  /// Columns of one part of the GEMM, and the tile's columns of a part.
  Dim part_columns() const { return *ir::divide_exactly(product_.n, ir::Dim(product_.parts)); }
  int part_tile() const { return s_.n / product_.parts; }
  /// The part that `load`, which reads the GEMM's result, reads.
  std::int64_t part_of(std::size_t load) const;

 private:
  std::string start(std::uint32_t buffer, const GemmOperand& operand, const std::string& along,
                    bool strided);
  void write_windows();
  void map_windows();
  void map(const char* name, std::uint32_t buffer, const GemmOperand& operand, const Dim& columns,
           const Dim& rows, int box_rows, const Shape& batch);

  void declare_tile();
  void place_block();
  void write_mainloop();
  void write_prologue();
  void map_rows();
  void map_columns();
  void read_product();
  void map_reductions();

  const ProgramAnalysis& analysis_;
  const GemmSchedule& s_;
  Arguments& args_;
  const GemmProgram& product_;
  const GemmProblem problem_;
  ThreadMapping mapping_;
  std::optional<PrologueFunction> prologue_;
  std::vector<MapParameter> maps_;
  ir::Dim tiles_m_, tiles_n_;
};

/// A block computes its tile; then its threads, `lanes` for each row, process the tile's elements.
GemmMapping map_gemm(const ProgramAnalysis& analysis, const GemmSchedule& schedule,
                     Arguments& args);

/// The prologue function: computes the GEMM's left operand rows in a block of `threads`.
PrologueFunction prologue_function(const KernelRequest& request, ExprTable& exprs, int threads);

/// Alignment of the reductions' dynamic shared memory, which follows the tile's.
inline constexpr std::uint32_t kScratchAlignment = 16;
/// Dynamic shared memory of the kernel: for the tile and the reductions.
std::uint32_t gemm_shared_bytes(const ProgramAnalysis& analysis, const GemmSchedule& schedule);

}  // namespace sinter::codegen
