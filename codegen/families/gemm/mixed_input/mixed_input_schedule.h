// TMA warp-specialized mixed-input products (sm_90 alone): packed weights become floats on their
// way to the warpgroups' tensor cores. See MixedInputTile in
// codegen/families/gemm/mixed_input/mixed_input.cuh.
#pragma once

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

/// Warpgroups share the columns of the tile.
struct MixedInput final : GemmTile {
  int warpgroups;

  explicit MixedInput(int count) : warpgroups(count) {}

  int epilogue_threads() const override { return 128 * warpgroups; }
  int threads() const override { return epilogue_threads() + 128; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override;
  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override;
  int blocks_at_once(const GemmProblem& problem, const GemmSchedule& s) const override;
  double estimate(const GemmProblem& problem, const GemmSchedule& s, std::int64_t m) const override;
  std::string to_string(const GemmSchedule& s) const override;
  std::string header(const GemmProgram& product) const override;
  std::string type(const GemmText& text) const override;
  bool rasters_along_m() const override { return true; }
  void write_operands(GemmText& text) const override;

 private:
  int accumulators(const GemmSchedule& s) const { return s.m * s.n / (128 * warpgroups); }
  /// Blocks that a multiprocessor is to have.
  int blocks_together(const GemmSchedule& s) const;
  /// Bytes of a warp's weights of one part of k, with scales and zero points.
  int slot_bytes(const GemmProgram& product, const GemmSchedule& s) const;
  /// Parts of weights that are under way: as many as there is room for beside x.
  int parts_ahead(const GemmProblem& problem, const GemmSchedule& s) const;
};

/// Rows from which on they may be ahead of tiles by warps, and up to which of making the weights
/// floats first; up to which they get a schedule each.
inline constexpr std::int64_t kLeastMixedInputRows = 17, kMostMixedInputRows = 3072;
inline constexpr std::int64_t kMixedInputRows[] = {64, 128, 256, 512, 1024, kMostMixedInputRows};

extern const GemmKernel kMixedInputKernel;

}  // namespace sinter::codegen
