// SPDX-License-Identifier: Apache-2.0
// Transformations of weights in code generation, registered by name as in fusion/transforms.h.
#pragma once

#include <span>

#include "ir/constants/recipe.h"

namespace sinter::codegen {

/// Weights reordered for kernels, with their scales (families/gemm/weights).
extern const ir::Derivation kPackedValues, kPackedForBytes, kPackedElements;
extern const ir::Transform kPackedGroups;
/// Quantized weights, and what there is one a group of, in panels for CPUs (panel_buffers).
extern const ir::Derivation kPanelValues, kPanelGroups;
/// The one value of zero points, or 128.
extern const ir::Transform kUniformZero;
/// Powers of two (e8m0), beside their codes of 4 bits, as e4m3 and a factor for each row. Results:
/// whether that is exact, scales, factors. Groups of zeros have a scale of zero.
extern const ir::Transform kScaledPowers;
/// The narrowest type that represents all scales.
extern const ir::Transform kNarrowestType;
/// Whether zero points are integers in the range of 4-bit weights.
extern const ir::Transform kHasFourBits;
/// Whether unpacked weights stay in the range of a type (unpacked_weights).
extern const ir::Transform kStaysWithin;

std::span<const ir::Transform* const> transforms();
std::span<const ir::Derivation* const> derivations();

}  // namespace sinter::codegen
