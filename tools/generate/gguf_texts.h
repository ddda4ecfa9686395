// SPDX-License-Identifier: Apache-2.0
// What a GGUF file says of texts, as the files of a Hugging Face folder.
#pragma once

#include <string>

#include "frontend/decoders/files/gguf.h"

namespace sinter::tools {

/// Writes tokenizer.json, tokenizer_config.json (the chat template, bos and eos) and
/// generation_config.json (tokens that end a text; general.sampling.*) into `folder`. Throws as
/// tokenizer_of().
void write_texts_of(const frontend::GgufFile& file, const std::string& folder);

}  // namespace sinter::tools
