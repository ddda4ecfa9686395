// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a GGUF file as tokenizer.json would have it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "frontend/decoders/files/gguf.h"

namespace sinter::tools {

/// Of tokenizer.ggml.*: byte pairs (`gpt2`), whose words are split as `pre` says, and SentencePiece
/// (`llama`), whose scores become ranks of merges. Throws Error(kUnsupported) for other models and
/// for an unknown `pre`, by name; Error(kInvalidModel) for metadata that are missing or contradict
/// each other.
nlohmann::ordered_json tokenizer_of(const frontend::GgufFile& file);

/// Names of `pre` that are known, sorted.
std::vector<std::string_view> known_word_splits();

}  // namespace sinter::tools
