// Tiles of products by warpgroups with packed weights (wgmma: sm_90 alone); see PackedGroupTile in
// codegen/families/gemm/mixed_input/packed_groups.cuh.
#pragma once

#include <vector>

#include "codegen/families/gemm/gemm_schedule.h"

namespace sinter::codegen {

/// True if warpgroups can multiply the product, whose weights are packed, on some GPU; else
/// `reason` says why not. What sizes must fulfil is left to conditions.
bool can_use_packed_groups(const ProgramAnalysis& analysis, const ProductProgram& product,
                           std::string& reason);

/// Tiles worth trying, without what the epilogue needs: each with every number of splits.
std::vector<ProductSchedule> packed_group_tiles(const ProductProgram& product);

/// Whether PackedGroupTile has this form.
bool is_packed_group_tile(const ProductProgram& product, const ProductSchedule& schedule);

/// PackedGroupTile::kSharedBytes, and how many blocks a multiprocessor is to have.
int packed_group_shared_bytes(const ProductProgram& product, const ProductSchedule& schedule);
int packed_group_blocks_at_once(const ProductSchedule& schedule);

/// "PackedGroupTile<f16, PackedBytes, Scales<f16, 0>, 256, ..>".
std::string packed_group_type(const ProductProgram& product, const ProductSchedule& schedule);

/// Rows from which on they may be ahead of tiles by warps, and up to which of making the weights
/// floats first; up to which they get a schedule each.
inline constexpr std::int64_t kLeastPackedRows = 17, kMostPackedRows = 3072;
inline constexpr std::int64_t kPackedGroupRows[] = {64, 128, 256, 512, 1024, kMostPackedRows};

/// Estimated nanoseconds for m x n x k on an H200.
double estimate_packed_groups(const ProductProgram& product, const ProductSchedule& schedule,
                              std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace sinter::codegen
