// SPDX-License-Identifier: Apache-2.0
// Transformations of constants besides evaluating operators. They are registered by name: a plan
// records how its weights were made, so that they can be made again from others.
#pragma once

#include <span>

#include "ir/constants/recipe.h"

namespace sinter::fusion {

/// A transposed matrix (regions/constant_values.h).
extern const ir::Derivation kTransposed;
/// Matrices joined by columns; and by rows, each of several with its counterpart
/// (projections/joined_constants).
extern const ir::Derivation kJoinedColumns, kJoinedRows;
/// Concatenated vectors of biases and scales (projections/joined_constants).
extern const ir::Transform kJoinedBiases;
/// A float tensor in another type; quantized integers and floats; weights with the scales and
/// shifts after their matmul folded in.
extern const ir::Transform kNarrowed, kQuantized, kQuantizedFloats, kFoldedScales;
/// Thresholds of decision trees with preceding scales and shifts folded in (fold_thresholds).
extern const ir::Transform kFoldedThresholds;
/// Integer weights of the model itself, with scales and zero points (read_weights.h).
extern const ir::Transform kReadIntegers;
/// Codes of 4 bits: whether wider floats are all such, these packed, and twice their numbers; their
/// scales as e8m0 (scales/rounding/float4.h).
extern const ir::Transform kHasFloat4, kPackedFloat4, kDoubledCodes, kPowersOfTwo;
/// Queries whose answers decide: the value of all elements; whether some represent infinity, and
/// whether a narrow type cannot hold one (lowering_policy.h); whether scales are equal, and whether
/// there are shifts (fold_scales).
extern const ir::Transform kSplatValue, kIsMask, kUnfitConstant, kIsUniform, kShifts;

/// 8-bit integers minus their zero points, and their sums (scales/sunk_product.h).
extern const ir::Transform kIntegerDifference, kIntegerSums;

std::span<const ir::Transform* const> transforms();
std::span<const ir::Derivation* const> derivations();

}  // namespace sinter::fusion
