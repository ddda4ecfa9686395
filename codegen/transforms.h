// What code generation does with weights, known by name as fusion/transforms.h has it.
#pragma once

#include <span>

#include "ir/constants/recipe.h"

namespace sinter::codegen {

/// Weights in the order of the kernels, and what is beside them (families/gemm/weights).
extern const ir::Derivation kPackedValues, kPackedForBytes, kPackedElements;
extern const ir::Transform kPackedGroups;
/// The narrowest type that has all scales.
extern const ir::Transform kNarrowestType;
/// Whether zero points are integers that weights of 4 bits may be.
extern const ir::Transform kHasFourBits;
/// Whether weights that are unpacked stay within a type (unpacked_weights).
extern const ir::Transform kStaysWithin;

std::span<const ir::Transform* const> transforms();
std::span<const ir::Derivation* const> derivations();

}  // namespace sinter::codegen
