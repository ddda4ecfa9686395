// TMA warp-specialized products (sm_90 alone): one warp has the copy engine fill the stages,
// warpgroups multiply out of shared memory (wgmma). See TmaTile in
// codegen/families/gemm/tma/tma.cuh.
#pragma once

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

/// Warpgroups share the rows of the tile.
struct Tma final : GemmTile {
  int warpgroups;

  explicit Tma(int count) : warpgroups(count) {}

  int epilogue_threads() const override { return 128 * warpgroups; }
  int threads() const override { return epilogue_threads() + 32; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override;
  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override;
  int blocks_at_once(const GemmProblem& problem, const GemmSchedule& s) const override;
  double estimate(const GemmProblem& problem, const GemmSchedule& s, std::int64_t m) const override;
  std::string to_string(const GemmSchedule& s) const override;
  std::string header(const GemmProgram& product) const override;
  std::string type(const GemmText& text) const override;
  void write_operands(GemmText& text) const override;

 private:
  /// Blocks of a multiprocessor that its shared memory and registers are enough for.
  int blocks_that_fit(const GemmProblem& problem, const GemmSchedule& s) const;
};

// What kernels have in common whose operands both come by TMA.

inline constexpr int kTmaStep = 64;        // of k
inline constexpr int kTmaBoxColumns = 64;  // of a copy by the copy engine
/// Tiles begin at multiples of 1024 bytes; a stage has two barriers.
inline constexpr int kTmaAlignment = 1024, kTmaStageBarriers = 2 * 16;
inline int tma_stage_bytes(const GemmSchedule& s) { return (s.m + s.n) * kTmaStep * 2; }

/// As many stages as fit beside `reserved` bytes where a multiprocessor has so many blocks, no more
/// than there are steps.
int tma_stages(const GemmSchedule& s, const DeviceModel& device, int blocks, int reserved,
               std::optional<std::int64_t> depth);

/// Accumulators of a thread: a warpgroup's rows by the tile's columns.
inline int tma_accumulators(const GemmSchedule& s, int warpgroups) {
  return s.m / warpgroups / 64 * s.n / 2;
}

/// Whether `warpgroups` that hold so many accumulators at most multiply such a tile.
bool fits_tma(const GemmProblem& problem, const GemmSchedule& s, int warpgroups,
              int most_accumulators);

bool is_for_tma(const GemmProgram& product);
bool takes_tma(const GemmProblem& problem, std::string& reason);

extern const GemmKernel kTmaKernel;

}  // namespace sinter::codegen
