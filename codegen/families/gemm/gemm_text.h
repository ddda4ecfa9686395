// The text of a GEMM kernel, of which its tile writes what is its own.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "codegen/emit/assemble.h"
#include "codegen/families/gemm/gemm_kernel.h"
#include "codegen/families/loops/body/thread_mapping.h"

namespace sinter::codegen {

/// A function that a block calls before it does anything else, number `block` of `blocks` times: it
/// makes the rows of the product's left operand.
struct PrologueRows {
  std::string name, text;
  ir::Dim blocks;
  std::vector<std::uint32_t> sizes;  // expressions: its parameters between the buffers and `block`
  std::vector<std::pair<std::uint32_t, std::int64_t>> weights;  // its buffers that may be fetched
                                                                // at once, and their bytes
};

/// What a GEMM kernel's text is made of.
struct GemmMapping {
  ThreadMapping epilogue;
  std::optional<PrologueRows> rows;
  std::vector<MapParameter> maps;  // parameters behind the kernel's arguments
};

/// Makes the layout of one variant. Lines go in front of the epilogue's statements, which the
/// layout's loops surround. Parameters of the kernel are numbered as their text is asked for.
class GemmText {
 public:
  GemmText(const ProgramAnalysis& analysis, const GemmSchedule& schedule, Arguments& args);

  GemmMapping make();

  const ProgramAnalysis& analysis() const { return analysis_; }
  const GemmProblem& problem() const { return problem_; }
  const GemmSchedule& schedule() const { return s_; }
  const GemmProgram& product() const { return product_; }
  ThreadMapping& mapping() { return mapping_; }
  /// The text of a size, as u32 or i64 if it is not constant.
  std::string dim(const Dim& size) { return args_.dim(size); }

  void line(std::string text) { mapping_.prologue.push_back(std::move(text)); }
  /// "i32(..)" of a size.
  std::string size(const Dim& size) { return fmt::format("i32({})", args_.dim(size)); }
  static bool divides(const Dim& size, int by) {
    return size.is_constant() && size.value() % by == 0;
  }

  // The tile scheduler.

  /// Tiles of all batches; those of a cluster count once.
  Dim tiles() const;
  /// Where tile number `rest` is: its batch, `first_row` and `first_column`.
  std::vector<std::string> place(std::string rest);
  /// Where k begins and ends for who has part `part` of split_k; adds to `lines` what declares
  /// that.
  std::pair<std::string, std::string> range_of_k(const std::string& part,
                                                 std::vector<std::string>& lines);

  // Operands. Each writes fields of `operands`.

  /// "a + 64 + i64(b0) * 128": where an operand's batch begins.
  std::string start(std::uint32_t buffer, const GemmOperand& operand);
  void write_strided_a();
  void write_strided_b();
  void write_packed_b();
  /// Rows, columns that the tile has; a constant where all are there, which spares the kernel its
  /// checks.
  void write_rows();
  void write_columns();
  /// The left operand as a tensor map, beside a right one with addresses.
  void write_mapped_a();
  /// Where scales of blocks are, and of which rows and columns the tile's are the first; nothing
  /// where there are none.
  std::vector<std::string> block_scales();
  /// Both operands as tensor maps, k or columns innermost.
  std::vector<std::string> mapped_operands();

  // Programmatic launch.

  /// The next kernel may begin; what rows share, such as a bias, is on its way to the L2 when the
  /// sums are ready.
  void begin_programmatic();
  /// What waits for the kernel in front.
  void write_behind_wait();

  // The epilogue.

  /// The kernel of a block that has one tile: mainloop, prologue and epilogue.
  void write_one_tile();
  /// Among all rows the one that is row `row_of_matrix` of the tile's matrix, split up.
  void rows_from(const std::string& row_of_matrix, std::vector<std::string>& lines);
  /// Splits element number `e` of a row up.
  void split_columns(std::vector<std::string>& lines);
  /// Whether the instruction loads the product.
  bool is_product(std::size_t instr) const;
  /// Columns of one of the product's parts, and what a tile has of it.
  Dim part_columns() const { return *ir::divide_exactly(product_.n, ir::Dim(product_.parts)); }
  int part_tile() const { return s_.n / product_.parts; }
  /// The part that `load`, an instruction that reads the product, reads.
  std::int64_t part_of(std::size_t load) const;

 private:
  std::string start(std::uint32_t buffer, const GemmOperand& operand, const std::string& along,
                    bool strided);
  void map_windows();
  void map(const char* name, std::uint32_t buffer, const GemmOperand& operand, const Dim& columns,
           const Dim& rows, int box_rows);

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
  std::optional<PrologueRows> rows_;
  std::vector<MapParameter> maps_;
  ir::Dim tiles_m_, tiles_n_;
};

/// A block multiplies its tile; then its threads, `lanes` to a row, walk the tile's elements.
GemmMapping map_gemm(const ProgramAnalysis& analysis, const GemmSchedule& schedule,
                     Arguments& args);

/// The prologue: what makes the rows of the request's product in a block of `threads`.
PrologueRows prologue_function(const KernelRequest& request, ExprTable& exprs, int threads);

/// Alignment of what reductions need in dynamic shared memory, behind the tile's.
inline constexpr std::uint32_t kScratchAlignment = 16;
/// Dynamic shared memory of the kernel: the tile's and the reductions'.
std::uint32_t gemm_shared_bytes(const ProgramAnalysis& analysis, const GemmSchedule& schedule);

}  // namespace sinter::codegen
