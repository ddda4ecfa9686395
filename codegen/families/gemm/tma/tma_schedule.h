// Tiles of products by warpgroups (wgmma and the copy engine: sm_90 alone); see GroupTile in
// codegen/families/gemm/tma/product_groups.cuh.
#pragma once

#include <vector>

#include "codegen/families/gemm/gemm_schedule.h"

namespace sinter::codegen {

/// True if warpgroups can multiply the product on some GPU; else `reason` says why not. What sizes
/// must fulfil is left to conditions.
bool can_use_groups(const ProgramAnalysis& analysis, const ProductProgram& product,
                    std::string& reason);

/// What an epilogue does for each element.
struct EpilogueWork {
  double instructions = 0;  // roughly
  double row_bytes = 0;     // that it loads of each row's own
};
EpilogueWork count_work(const ProgramAnalysis& analysis, const ProductProgram& product);

/// Tiles worth trying, without what the epilogue needs: each with every number of splits of
/// `depth`, the most that k is, if known.
std::vector<ProductSchedule> group_tiles(const ProductProgram& product,
                                         std::optional<std::int64_t> depth,
                                         const EpilogueWork& work);

/// Whether GroupTile has this form.
bool is_group_tile(const ProductProgram& product, const ProductSchedule& schedule);

/// TurnPasses::kVectors of tiles of n columns.
int turn_vectors(int n);

/// GroupTile::kSharedBytes, or TurnTile's.
int group_shared_bytes(const ProductSchedule& schedule);

/// Blocks of a multiprocessor that its shared memory and registers are enough for.
int group_blocks_at_once(const ProductSchedule& schedule);

/// Whether the epilogue of TurnTile may compute with other columns than a thread loads and stores:
/// all that varies along a row is loaded and stored in whole vectors, and nothing asks for a
/// column.
bool can_spread(const ProgramAnalysis& analysis, const Schedule& body);

/// Estimated nanoseconds for m x n x k, `matrices` of them, on an H200.
double estimate_groups(const ProductSchedule& schedule, std::int64_t m, std::int64_t n,
                       std::int64_t k, double matrices, const EpilogueWork& work);

}  // namespace sinter::codegen
