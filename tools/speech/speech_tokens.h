// SPDX-License-Identifier: Apache-2.0
// The tokens that Whisper's texts are framed by, as its tokenizer names them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/tokenizer/tokenizer.h"

namespace sinter::tools {

struct SpeechTokens {
  std::int64_t end = 0;              // <|endoftext|>: lower ids are text
  std::int64_t start = 0;            // <|startoftranscript|>
  std::int64_t previous = 0;         // <|startofprev|>: precedes the previous text
  std::int64_t no_speech = 0;        // <|nospeech|>, <|nocaptions|>
  std::int64_t no_timestamps = 0;    // <|notimestamps|>
  std::int64_t first_timestamp = 0;  // <|0.00|>: it and all higher ids are times, 20 ms apart
  std::int64_t translate = 0, transcribe = 0;
  /// By language code, such as "en". Empty for an English-only model.
  std::vector<std::pair<std::string, std::int64_t>> languages;
  /// Never generated: symbols that are not spoken, and the tokens above.
  std::vector<std::int64_t> suppressed;
  std::int64_t space = 0;  // not allowed as a text's first token, like `end`

  /// `vocabulary`: the model's number of tokens. Throws Error(kUsage) naming a token that the
  /// tokenizer lacks.
  static SpeechTokens of(const Tokenizer& tokenizer, std::int64_t vocabulary);
  /// Throws Error(kUsage) listing the known codes for an unknown one.
  std::int64_t language(std::string_view code) const;
};

}  // namespace sinter::tools
