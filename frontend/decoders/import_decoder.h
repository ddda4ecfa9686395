// SPDX-License-Identifier: Apache-2.0
// Decoders from weights: a Hugging Face folder, or a GGUF file.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "frontend/model/imported_model.h"

namespace sinter::frontend {

/// True for a folder with config.json, and for a GGUF file. Throws Error(kUsage) if `path` cannot
/// be opened.
bool is_decoder_source(const std::string& path);

struct DecoderOptions {
  /// As in ImportOptions.
  std::shared_ptr<ir::ReadLog> reads;
  std::function<void(std::size_t done, std::size_t total)> on_node;
};

/// The decoder at `path` (see decoder_graph.h). Throws Error(kInvalidModel) for damaged files,
/// Error(kUnsupported) naming the architecture, key or tensor that is not known.
ImportedModel import_decoder(const std::string& path, const DecoderOptions& options = {});

}  // namespace sinter::frontend
