// SPDX-License-Identifier: Apache-2.0
// Floats of 4 bits as weights: found in wider constants, and as integers for targets without them.
#pragma once

#include <vector>

#include "fusion/context.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

/// The code of the float of 4 bits that each code of `type`, of 8 bits, is; -1: it is none.
std::vector<int> float4_codes_of(DType type);
/// True if all of `values`, of 8 bits, are floats of 4 bits.
bool are_float4(const Tensor& values);
/// True if twice the numbers of codes of 4 bits are 8-bit integers.
bool has_doubled_integers(const ir::CodeType& codes);
/// The same numbers, exactly: twice those of the codes as int8, half the scales.
ir::ScaledTensor as_integers(const ir::ScaledTensor& weights);

}  // namespace sinter::fusion
