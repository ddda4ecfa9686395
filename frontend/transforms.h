// SPDX-License-Identifier: Apache-2.0
// The importer's transforms of constants, known by name (fusion/transforms.h).
#pragma once

#include <span>

#include "ir/constants/recipe.h"

namespace sinter::frontend {

/// Block-quantized weights and their zero points in ScaleFormat's form (ops/quantization).
extern const ir::Transform kScaledValues, kScaledZeros;
/// Weights in a GPU kernel's order of bytes, by rows.
extern const ir::Transform kPackedByRows;
/// Reinterprets bytes as 8-bit floats.
extern const ir::Transform kFloat8OfCodes;

std::span<const ir::Transform* const> transforms();

}  // namespace sinter::frontend
