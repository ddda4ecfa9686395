// SPDX-License-Identifier: Apache-2.0
// Frequencies of rotary embedding, as transformers' modeling_rope_utils.py defines them, with the
// same float32 steps.
#pragma once

#include "frontend/decoders/config/config_keys.h"
#include "frontend/decoders/config/decoder_config.h"
#include "frontend/decoders/files/tensor_file.h"

namespace sinter::frontend {

/// 1 / base^(2i / rotated) for each of `rotated` / 2 pairs.
std::vector<float> rotary_frequencies(double base, std::int64_t rotated);

/// The same, scaled as "rope_scaling" says, or GGUF's keys and its tensors rope_freqs and
/// rope_factors_long and _short. Throws Error(kUnsupported) naming a type that is not known.
Rotary read_rotary(const ConfigKeys& keys, const TensorFile& weights, double base,
                   std::int64_t rotated, std::int64_t positions, bool truncates = true);

}  // namespace sinter::frontend
