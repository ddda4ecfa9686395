// Schedules of products of few rows, and of those with quantised weights: SkinnyTile in
// codegen/families/gemm/small_m/skinny.cuh.
#pragma once

#include "codegen/families/gemm/gemm_schedule.h"

namespace sinter::codegen {

/// True if the kernels take the product at all; else `reason` says why not.
bool can_be_skinny(const ProductProgram& product, std::string& reason);

/// Whether the tile's integers are what SkinnyTile takes for the product.
bool is_skinny_tile(const ProductProgram& product, const ProductSchedule& schedule);

/// SkinnyTile::kSharedBytes.
int skinny_shared_bytes(const ProductProgram& product, const ProductSchedule& schedule);

/// Tiles worth trying, without what the program decides: for few rows alone unless weights are
/// quantised.
std::vector<ProductSchedule> skinny_tiles(const ProductProgram& product);

/// Rows up to which a product takes as long as its weights.
inline constexpr std::int64_t kFewRows = 16;
/// Rows up to which products with quantised weights get a schedule of their own.
inline constexpr std::int64_t kSkinnyRows[] = {1, 4, 8, 16, 32, 64, 256};

/// Estimated nanoseconds on an H200 for a product of these sizes.
double estimate_skinny(const ProductProgram& product, const ProductSchedule& schedule,
                       std::int64_t m, std::int64_t n, std::int64_t k);

/// Neighbouring k's with one scale within a kernel's main loop; 0: scales are applied behind it.
std::int64_t loop_group(const ProductProgram& product);

/// "PackedBytes, Scales<f16, 128, true>": packed weights and the scales of `group` k's each.
std::string packed_weights_type(const ProductWeights& weights, std::int64_t group);

/// "SkinnyTile<f16, PackedBytes, Scales<f16, 0>, 8, ..>".
std::string skinny_type(const ProductProgram& product, const ProductSchedule& schedule);

}  // namespace sinter::codegen
