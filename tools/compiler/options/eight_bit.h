// SPDX-License-Identifier: Apache-2.0
// --precision int8 and fp8: matmuls with 8-bit operands, and the precision of everything else.
#pragma once

#include <sinter/compiler.h>

#include "fusion/context.h"

namespace sinter::tools {

/// True for precisions with 8-bit operands of matmuls.
bool has_eight_bit(Precision precision);

/// The passes' options for the target; defaults for other precisions. Throws Error(kUsage) for
/// inconsistent options, Error(kUnsupported) if the target lacks such matmuls.
fusion::EightBitOptions eight_bit_to_fusion(const CompileOptions& options,
                                            const ir::TargetTraits& target);

/// The precision of everything that is not 8-bit: float16 if kernels are generated, since tensor
/// cores support it; on a CPU the model's own types. Other precisions stay unchanged.
fusion::Precision precision_to_fusion(Precision precision, const ir::TargetTraits& target);

}  // namespace sinter::tools
