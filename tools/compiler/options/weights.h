// SPDX-License-Identifier: Apache-2.0
// Float weights of products as integers of few bits, and what that costs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "fusion/context.h"
#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// All but the calibration's samples. Throws Error(kUsage) for options that mean nothing together.
/// `has_eight_bit`: samples and layers that stay may be about operands of 8 bits instead, samples
/// with `has_narrow_caches` about caches.
fusion::WeightOptions to_fusion(const WeightOptions& weights, bool has_eight_bit = false,
                                bool has_narrow_caches = false);

/// parse_weights' text.
std::string to_text(const WeightOptions& weights);

/// What a plan of `plan_bytes` would have, had its layers kept their floats in the plan's own
/// precision. Types that the target has no products of quantized weights for are floats in it.
double bytes_without_rounding(const std::vector<fusion::QuantizedLayer>& layers,
                              fusion::Precision precision, const ir::TargetTraits& target,
                              double plan_bytes);

/// Says what was asked for in vain, and what would be better.
void note_idle(const std::vector<fusion::QuantizedLayer>& layers, const CompileOptions& options,
               Reporter& reporter);

LayerResult layer_result(const fusion::QuantizedLayer& layer);

}  // namespace sinter::tools
