// What passes do with constants besides evaluating operators: known by name, so that a plan can say
// how its weights were made and they can be made again of others.
#pragma once

#include <span>

#include "ir/constants/recipe.h"

namespace sinter::fusion {

/// A matrix the other way round (regions/constant_values.h).
extern const ir::Derivation kTransposed;
/// Matrices side by side, and one below the other (projections/joined_constants).
extern const ir::Derivation kJoinedColumns, kJoinedRows;
/// Vectors one after the other, of biases and of scales (projections/joined_constants).
extern const ir::Transform kJoinedBiases;
/// A float tensor in another type; integers of few bits; what scales and shifts behind a product
/// make of its weights.
extern const ir::Transform kNarrowed, kQuantized, kQuantizedFloats, kFoldedScales;
/// What scales and shifts in front of decision trees make of their thresholds (fold_thresholds).
extern const ir::Transform kFoldedThresholds;
/// The integers that a model itself has for weights, their scales and zero points (read_weights.h).
extern const ir::Transform kReadIntegers;
/// Questions whose answers decide: the value of all elements; whether some stand for infinity, and
/// whether a narrow type cannot have one (lowering_policy.h); whether scales are equal, and whether
/// there are shifts (fold_scales).
extern const ir::Transform kSplatValue, kIsMask, kUnfitConstant, kIsUniform, kShifts;

/// Integers of 8 bits less their zero points, and their sums (quantize/narrow_product.h).
extern const ir::Transform kIntegerDifference, kIntegerSums;

std::span<const ir::Transform* const> transforms();
std::span<const ir::Derivation* const> derivations();

}  // namespace sinter::fusion
