// Packed weights as kernels take them.
#pragma once

#include <string>

#include "codegen/families/gemm/gemm_lowering.h"

namespace sinter::codegen {

/// Whether the product's weights can be packed, its parts being whole units; else `reason` says why
/// not.
bool can_pack_weights(const GemmProgram& product, std::string& reason);

/// Neighbouring k's with one scale within a kernel's main loop; 0: scales are applied behind it.
std::int64_t loop_group(const GemmProgram& product);

/// "PackedBytes, Scales<f16, 128, true>": packed weights and the scales of `group` k's each.
std::string packed_weights_type(const GemmWeights& weights, std::int64_t group);

}  // namespace sinter::codegen
