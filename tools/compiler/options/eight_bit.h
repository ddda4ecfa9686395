// SPDX-License-Identifier: Apache-2.0
// --precision int8 and fp8: products with operands of 8 bits, and what all else is computed in.
#pragma once

#include <sinter/compiler.h>

#include "fusion/context.h"

namespace sinter::tools {

/// True for precisions under which products have operands of 8 bits.
bool has_eight_bit(Precision precision);

/// What the passes are asked for on such a target; nothing under another precision. Throws
/// Error(kUsage) for options that mean nothing together, Error(kUnsupported) where the target has
/// no such products.
fusion::EightBitOptions eight_bit_to_fusion(const CompileOptions& options,
                                            const ir::TargetTraits& target);

/// What is not computed in 8 bits: float16 where kernels are generated, since tensor cores have it;
/// else, on a CPU, the model's own types. Other precisions are what they say.
fusion::Precision precision_to_fusion(Precision precision, const ir::TargetTraits& target);

}  // namespace sinter::tools
