// SPDX-License-Identifier: Apache-2.0
// Small-M GEMMs, and larger ones with quantized weights: warps multiply weights as they stream in,
// packed or not. See SmallMTile in codegen/families/gemm/small_m/small_m.cuh.
#pragma once

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

struct FewRowsCosts;

/// Row counts that get a schedule each.
inline constexpr std::int64_t kSmallMRows[] = {1, 4, 8, 16, 32, 64, 256};

/// Each warp has n / warps_n columns, k / warps_k of k, and all rows.
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
  /// Bytes of a stage: weights and, unless a prologue computes them, rows of x.
  int stage_bytes(const GemmProgram& product, const GemmSchedule& s, bool with_prologue) const;
  /// Bytes of all stages and the data after them, including prologue rows.
  int ring_bytes(const GemmProgram& product, const GemmSchedule& s, int stage) const;
};

/// The time is the maximum of three: loading the bytes that are not in flight when the preceding
/// step ends; a multiprocessor's instructions; a warp's steps.
double estimate_few_rows(const GemmProblem& problem, const GemmSchedule& s, const SmallM& tile,
                         std::int64_t m, const FewRowsCosts& costs);

/// Tiles for up to kFewRows rows, whose time is that of their weights.
struct FewRowsTile {
  int m, columns, depth, warps_n, warps_k, stages;  // columns, depth: of a warp
  bool is_for_int8 = false;                         // also worth trying with int8 slices
  int n() const { return columns * warps_n; }
  int k() const { return depth * warps_k; }
};
std::vector<FewRowsTile> few_rows_tiles(const GemmProgram& product);

/// Adds the schedule with every split_k, if its tile fits.
void add_splits(const GemmProblem& problem, GemmSchedule s, std::vector<GemmSchedule>& all);

/// Whether all other kernels are slower for the GEMM: few rows, with weights stored by columns.
bool leaves_to_small_m(const GemmProblem& problem);

/// True if row counts vary below kFewRows and weights have 16 bits or fewer. All schedules then sum
/// a row in the same order, so that its result does not depend on the number of rows.
bool has_one_order(const GemmProgram& product, const Ranges& ranges);

std::string refuse_small_m(const GemmProblem& problem);

}  // namespace sinter::codegen
