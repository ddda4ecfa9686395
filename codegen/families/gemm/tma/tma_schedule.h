// TMA warp-specialized products (sm_90 alone): one warp has the copy engine fill the stages,
// warpgroups multiply out of shared memory (wgmma). See TmaTile in
// codegen/families/gemm/tma/tma.cuh.
#pragma once

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

// What kernels have in common whose operands both come by TMA.

/// Of k: what a row of 128 bytes holds.
inline int tma_step(const GemmProgram& product) { return 128 / product.element_bytes(); }
/// Elements of the 16 bytes that rows are whole multiples of.
inline int tma_unit(const GemmProgram& product) { return 16 / product.element_bytes(); }
/// Tiles begin at multiples of 1024 bytes; a stage has two barriers.
inline constexpr int kTmaAlignment = 1024, kTmaStageBarriers = 2 * 16;
inline int tma_stage_bytes(const GemmSchedule& s) { return (s.m + s.n) * 128; }

/// As many stages as fit beside `reserved` bytes where a multiprocessor has so many blocks, no more
/// than there are steps.
int tma_stages(const GemmSchedule& s, const DeviceModel& device, int blocks, int reserved,
               std::optional<std::int64_t> depth);

/// Channels of a tap with those that are zeros behind them, up to whole steps.
Dim padded_channels(const ConvWindows& windows, int step, const ir::Ranges& ranges);
/// GemmTile::depth of these kernels, and typically how many steps that is.
Dim tma_depth(const GemmProblem& problem, const GemmSchedule& s);
std::int64_t tma_steps(const GemmProblem& problem, const GemmSchedule& s);

/// Accumulators of a thread: a warpgroup's rows by the tile's columns.
inline int tma_accumulators(const GemmSchedule& s, int warpgroups) {
  return s.m / warpgroups / 64 * s.n / 2;
}

/// Columns of one promoted product, of which a tile's warpgroup has one or several:
/// TmaMainloop::kColumns.
int tma_product_columns(const GemmProgram& product, int columns);
/// What a thread holds of a tile: accumulators, and where they are promoted those of one product
/// more.
int tma_held(const GemmProgram& product, const GemmSchedule& s, int warpgroups, bool promotes);

/// Whether `warpgroups` that hold so much at most multiply such a tile, promoted every so many of k
/// (0: not).
bool fits_tma(const GemmProblem& problem, const GemmSchedule& s, int warpgroups, int most_held,
              int promoted);

/// The last arguments of a tile's template, where a product has parts or windows, is promoted,
/// shares copies, or, of those whose last argument that is, k.
std::string further_arguments(const GemmProgram& product, const GemmSchedule& s, int promoted,
                              int split_k = 1);

/// Tensor cores add up products of 8-bit floats with about 14 bits. A schedule that promotes has
/// the products of so many neighbours along k, kPromotionStep or some times it, added to float32.
/// What the product needs beside what 8 bits themselves round; 0: nothing.
inline constexpr int kPromotionStep = 128;
int needed_promotion(const GemmProblem& problem);
/// Whether a warpgroup has one product of a stage.
bool has_one_product(const GemmProgram& product, const GemmSchedule& s, int warpgroups);
/// The deepest promotion up to `needed` that the schedule's stages allow: those of several products
/// are read once for each.
int possible_promotion(const GemmProgram& product, const GemmSchedule& s, int warpgroups,
                       int needed);
/// " promote=512 multicast=2", or what of it holds.
std::string options_text(const GemmSchedule& s, int promoted);
/// Takes that out of a schedule's text; 0 and 1 where it is not there. Throws Error(kUsage) for
/// another depth.
int take_promotion(std::string& schedule);
int take_multicast(std::string& schedule);

bool is_for_tma(const GemmProgram& product);
std::string refuse_tma(const GemmProblem& problem);

}  // namespace sinter::codegen
