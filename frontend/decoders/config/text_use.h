// SPDX-License-Identifier: Apache-2.0
// What the graph of a folder's weights is for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "frontend/decoders/config/architectures.h"
#include "frontend/decoders/config/config_keys.h"
#include "frontend/decoders/config/decoder_config.h"

namespace sinter::frontend {

/// Of a folder with a row of `architectures()`: labels, if its class is one
/// `ForSequenceClassification`; else what modules.json of sentence-transformers says (Pooling:
/// vectors, LogitScore: an answer); vectors, if the class is the bare model or an encoder's; else
/// the next token. Throws Error(kInvalidModel) for damaged files.
TextConfig text_use(const std::filesystem::path& folder, const Architecture& row,
                    const ConfigKeys& keys);

/// What config.json says of `config.text`, whose use is set, and what is left out for it. Throws
/// Error(kUnsupported) naming what is not known.
void read_text(const Architecture& row, const ConfigKeys& keys, DecoderConfig& config);

/// The files of `folder` beside config.json that decide it; those that exist.
std::vector<std::string> text_use_files(const std::filesystem::path& folder);

}  // namespace sinter::frontend
