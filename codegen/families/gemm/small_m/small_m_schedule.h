// Products of few rows, and of more with quantized weights: warps multiply weights as they stream
// in, packed or not. See SmallM's SmallMTile in codegen/families/gemm/small_m/small_m.cuh.
#pragma once

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

/// Rows up to which a product takes as long as its weights.
inline constexpr std::int64_t kFewRows = 16;
/// Rows up to which such products get a schedule of their own.
inline constexpr std::int64_t kSmallMRows[] = {1, 4, 8, 16, 32, 64, 256};

/// Each warp has n / warps_n columns and k / warps_k of k, and all rows.
struct SmallM : GemmTile {
  int warps_n, warps_k;

  SmallM(int along_n, int along_k) : warps_n(along_n), warps_k(along_k) {}

  int epilogue_threads() const override { return 32 * warps_n * warps_k; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override;
  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override;
  double estimate(const GemmProblem& problem, const GemmSchedule& s, std::int64_t m) const override;
  std::string to_string(const GemmSchedule& s) const override;
  std::string sum_order(const GemmProblem& problem, const GemmSchedule& s) const override;
  std::string header(const GemmProgram& product) const override;
  std::string type(const GemmText& text) const override;
  bool rasters_along_m(const GemmProblem&) const override { return true; }
  void write_operands(GemmText& text) const override;

 protected:
  /// "small_m 8x32x256 warps=1x1x4 stages=3".
  std::string tile_text(const char* kernel, const GemmSchedule& s) const;
  /// Bytes of one stage's weights and, if they pass through it, rows.
  int stage_bytes(const GemmProgram& product, const GemmSchedule& s, bool with_prologue) const;
  /// Bytes of the ring of stages and what lies behind it, rows of a prologue included.
  int ring_bytes(const GemmProgram& product, const GemmSchedule& s, int stage) const;
};

/// Nanoseconds of SmallM::estimate for up to kFewRows rows, where nothing else is said.
struct FewRowsCosts {
  double bytes, latency;    // of memory: each nanosecond; until what is asked for arrives
  double wave, most_waves;  // of blocks; beyond so many, blocks hide each other's beginnings
  double step, meeting;     // of a block; more if its warps wait for each other
  double warp_step;         // of a multiprocessor, for each warp
  double row_bytes, sums;   // for a byte of x, a sum
  double both;              // part of instructions and chains that hides behind nothing
  double unit, unit_alone;  // of 512 bytes: a multiprocessor's, with others at work; a warp's
  // Weights and x out of the L2: each nanosecond to all multiprocessors, for one tile.
  double traffic = 1e9, tile_traffic = 1e9;
  double last_wave = 0;    // a stage's, of the blocks that are left when the first ones end
  double own_meeting = 0;  // of a step whose warps wait for each other, behind everything else
  // Of several waves, behind everything else: of a multiprocessor, for each warp's step; of a wave
  // of blocks that have it to themselves.
  double own_step = 0, lone_wave = 0;
  double split = 725;  // of each block that shares a tile, where several do
};
/// What is not under way when the step in front ends takes as long as memory needs for it, with
/// what is under way at once; or as the instructions of a multiprocessor or the steps of a warp
/// take. `costs` are those of an H200.
double estimate_few_rows(const GemmProblem& problem, const GemmSchedule& s, const SmallM& tile,
                         std::int64_t m, FewRowsCosts costs);

/// Tiles for up to kFewRows rows, whose time is that of their weights.
struct FewRowsTile {
  int m, columns, depth, warps_n, warps_k, stages;  // columns and depth: of a warp
  bool is_for_int8 = false;                         // worth trying in integers as well
  int n() const { return columns * warps_n; }
  int k() const { return depth * warps_k; }
};
std::vector<FewRowsTile> few_rows_tiles(const GemmProgram& product);

/// Adds the schedule with every number of blocks that may share a tile's k, if its tile fits.
void add_splits(const GemmProblem& problem, GemmSchedule s, std::vector<GemmSchedule>& all);

/// Whether other kernels, if any take the product, are slower: of few rows, with weights by
/// columns.
bool leaves_to_small_m(const GemmProblem& problem);

/// Whether the rows, by weights of 16 bits or fewer, are up to kFewRows, but not always as many.
/// Then all schedules add up a row's products in one order: what becomes of it does not depend on
/// how many others there are.
bool has_one_order(const GemmProgram& product, const Ranges& ranges);

std::string refuse_small_m(const GemmProblem& problem);

}  // namespace sinter::codegen
