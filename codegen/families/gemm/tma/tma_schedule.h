// TMA warp-specialized products (sm_90 alone): one warp has the copy engine fill the stages,
// warpgroups multiply out of shared memory (wgmma). See TmaTile in
// codegen/families/gemm/tma/tma.cuh.
#pragma once

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

// What kernels have in common whose operands both come by TMA.

inline constexpr int kTmaStep = 64;  // of k
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

/// The last arguments of a tile's template, where a product has parts or windows.
std::string further_arguments(const GemmProgram& product);

bool is_for_tma(const GemmProgram& product);
std::string refuse_tma(const GemmProblem& problem);

}  // namespace sinter::codegen
