// SPDX-License-Identifier: Apache-2.0
// Whisper's two graphs, of the operators that the ONNX importer makes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/decoders/config/config_keys.h"
#include "frontend/decoders/files/tensor_file.h"
#include "ir/constants/recipe.h"
#include "ir/graph.h"

namespace sinter::frontend {

inline constexpr std::string_view kSpeechModel = "whisper";  // "model_type" of config.json

/// The encoder: input_features f32 [1, bands, frames] to cross_key_i and cross_value_i [1, heads,
/// positions, size] of each layer of the decoder. The decoder: input_ids [1, sequence]; position
/// [1], the number of tokens before them; those keys and values; past_key_i and past_value_i [1,
/// heads, capacity, size]. It gives logits [1, vocabulary] of the last token, and present_key_i,
/// present_value_i. `computes_wide`: in float32, however weights are stored. `reads` as in
/// ImportOptions; `notes` receives what is ignored. Throws Error(kInvalidModel),
/// Error(kUnsupported) as decoders do.
ir::Graph speech_graph(const ConfigKeys& keys, std::shared_ptr<const TensorFile> file,
                       std::shared_ptr<ir::ReadLog> reads, bool is_encoder, bool computes_wide,
                       std::vector<std::string>& notes);

}  // namespace sinter::frontend
