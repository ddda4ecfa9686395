// SPDX-License-Identifier: Apache-2.0
// What import does with constants, known by name as fusion/transforms.h has it.
#pragma once

#include <span>

#include "ir/constants/recipe.h"

namespace sinter::frontend {

/// Block-quantized weights and their zero points as a format has them (ops/quantization).
extern const ir::Transform kScaledValues, kScaledZeros;
/// Bytes as the floats of 8 bits whose codes they are.
extern const ir::Transform kFloat8OfCodes;

std::span<const ir::Transform* const> transforms();

}  // namespace sinter::frontend
