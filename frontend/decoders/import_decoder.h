// SPDX-License-Identifier: Apache-2.0
// Decoders and encoders of texts from weights: a Hugging Face folder, or a GGUF file.
#pragma once

#include <memory>
#include <string>

#include "frontend/model/imported_model.h"

namespace sinter::frontend {

/// True for a folder with config.json, and for a GGUF file. Throws Error(kUsage) if `path` cannot
/// be opened, or is another folder.
bool is_decoder_source(const std::string& path);

/// The model at `path` (see decoder_graph.h, encoder_graph.h; text_use() says which graph of a
/// decoder's weights); `reads` as in ImportOptions. Throws
/// Error(kInvalidModel) for damaged files, Error(kUnsupported) naming the architecture, key or
/// tensor that is not known.
/// `wants_encoder`: of a model of both (see speech_graph.h); Error(kUsage) for others.
ImportedModel import_decoder(const std::string& path, std::shared_ptr<ir::ReadLog> reads = nullptr,
                             bool wants_encoder = false);

}  // namespace sinter::frontend
