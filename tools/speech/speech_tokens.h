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
  std::int64_t end = 0;              // <|endoftext|>: texts are of the tokens before it
  std::int64_t start = 0;            // <|startoftranscript|>
  std::int64_t previous = 0;         // <|startofprev|>: the text so far
  std::int64_t no_speech = 0;        // <|nospeech|>, <|nocaptions|>
  std::int64_t no_timestamps = 0;    // <|notimestamps|>
  std::int64_t first_timestamp = 0;  // <|0.00|>: all from here on are, 20 ms apart
  std::int64_t translate = 0, transcribe = 0;
  /// By their codes, as "en". Empty for a model of English alone.
  std::vector<std::pair<std::string, std::int64_t>> languages;
  /// Never chosen: what marks something that is not spoken, and the tokens above.
  std::vector<std::int64_t> suppressed;
  std::int64_t space = 0;  // not chosen as a text's first token, and neither is `end`

  /// `vocabulary`: how many tokens the model has. Throws Error(kUsage) naming a token that the
  /// tokenizer does not have.
  static SpeechTokens of(const Tokenizer& tokenizer, std::int64_t vocabulary);
  /// Throws Error(kUsage), naming codes that there are.
  std::int64_t language(std::string_view code) const;
};

}  // namespace sinter::tools
