// SPDX-License-Identifier: Apache-2.0
// TMA warp-specialized GEMMs (sm_90 only): one warp issues TMA copies into the stages,
// warpgroups run MMAs from shared memory (wgmma). See TmaTile in
// codegen/families/gemm/tma/tma.cuh.
#pragma once

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

// Common to kernels whose operands both come by TMA.

/// k's in a row of 128 bytes.
inline int tma_step(const GemmProgram& product) { return 128 / product.element_bytes(); }
/// Elements in 16 bytes, of which rows are multiples.
inline int tma_unit(const GemmProgram& product) { return 16 / product.element_bytes(); }
/// Tiles are aligned to 1024 bytes; a stage has two mbarriers.
inline constexpr int kTmaAlignment = 1024, kTmaStageBarriers = 2 * 16;
inline int tma_stage_bytes(const GemmSchedule& s) { return (s.m + s.n) * 128; }

/// The stages that fit besides `reserved` bytes with `blocks` on a multiprocessor, at most the
/// number of steps.
int tma_stages(const GemmSchedule& s, const DeviceModel& device, int blocks, int reserved,
               std::optional<std::int64_t> depth);

/// Channels of a tap, zero-padded to whole steps.
Dim padded_channels(const ConvWindows& windows, int step, const ir::Ranges& ranges);
/// GemmTile::depth of these kernels, and its typical number of steps.
Dim tma_depth(const GemmProblem& problem, const GemmSchedule& s);
std::int64_t tma_steps(const GemmProblem& problem, const GemmSchedule& s);

/// Accumulators of a thread: a warpgroup's rows times the tile's columns.
inline int tma_accumulators(const GemmSchedule& s, int warpgroups) {
  return s.m / warpgroups / 64 * s.n / 2;
}

/// Columns of one promoted MMA, of which a warpgroup has one or more:
/// TmaMainloop::kColumns.
int tma_product_columns(const GemmProgram& product, int columns);
/// Registers that a thread holds for a tile: accumulators and, with promotion, those of one MMA
/// more.
int tma_held(const GemmProgram& product, const GemmSchedule& s, int warpgroups, bool promotes);

/// Whether `warpgroups`, with at most `most_held` registers each, can compute such a tile,
/// promoting every `promoted` k's (0: never).
bool fits_tma(const GemmProblem& problem, const GemmSchedule& s, int warpgroups, int most_held,
              int promoted);

/// The trailing template arguments of a tile: parts, windows, promotion, multicast and, for tiles
/// that have it last, split_k.
std::string further_arguments(const GemmProgram& product, const GemmSchedule& s, int promoted,
                              int split_k = 1);

/// Tensor cores accumulate fp8 with about 14 bits. A schedule that promotes adds sums over that
/// many k's, a multiple of kPromotionStep, to float32. Returns the promotion that keeps the error
/// below that of rounding to 8 bits; 0: none.
inline constexpr int kPromotionStep = 128;
int needed_promotion(const GemmProblem& problem);
/// Whether a warpgroup has one MMA for each stage.
bool has_one_product(const GemmProgram& product, const GemmSchedule& s, int warpgroups);
/// The deepest promotion, at most `needed`, that the schedule's stages allow: with several MMAs,
/// stages are read again for each.
int possible_promotion(const GemmProgram& product, const GemmSchedule& s, int warpgroups,
                       int needed);
/// " promote=512 multicast=2", as far as they apply.
std::string options_text(const GemmSchedule& s, int promoted);
/// Remove these from a schedule's text; 0 and 1 if absent. Throw Error(kUsage) for an invalid
/// value.
int take_promotion(std::string& schedule);
int take_multicast(std::string& schedule);

bool is_for_tma(const GemmProgram& product);
std::string refuse_tma(const GemmProblem& problem);

}  // namespace sinter::codegen
