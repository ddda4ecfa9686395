// SPDX-License-Identifier: Apache-2.0
// Options of weight-only quantization, and its cost.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "fusion/context.h"
#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// Everything except the calibration samples. Throws Error(kUsage) for inconsistent options.
/// `has_eight_bit`: samples and kept layers may concern 8-bit operands instead;
/// `has_narrow_caches`: samples may concern caches; `has_sixteen_bits`: samples and kept layers may
/// concern what stays float32.
fusion::WeightOptions to_fusion(const WeightOptions& weights, bool has_eight_bit = false,
                                bool has_narrow_caches = false, bool has_sixteen_bits = false);

/// The inverse of parse_weights.
std::string to_text(const WeightOptions& weights);

/// The size of a plan of `plan_bytes` if its layers had kept floats in the plan's precision. Layers
/// whose quantized form the target cannot multiply are floats anyway.
double bytes_without_rounding(const std::vector<fusion::QuantizedLayer>& layers,
                              fusion::Precision precision, const ir::TargetTraits& target,
                              double plan_bytes);

/// Warns of options without effect, and suggests better ones.
void note_idle(const std::vector<fusion::QuantizedLayer>& layers, const CompileOptions& options,
               Reporter& reporter);

LayerResult layer_result(const fusion::QuantizedLayer& layer);

}  // namespace sinter::tools
