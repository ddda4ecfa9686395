// SPDX-License-Identifier: Apache-2.0
// Constraints on timestamp tokens, from the Whisper paper and OpenAI's decoder.
#pragma once

#include <cstdint>
#include <span>

#include "tools/speech/speech_tokens.h"

namespace sinter::tools {

/// Sets the logits of tokens that may not follow `text` (the tokens since the prompt) to minus
/// infinity. Times come in pairs, a segment's end and the next one's begin, except the last. They
/// do not decrease. A segment is not empty. The first token is a time in the first second. If all
/// times together are more probable than any other token, the next token is a time.
void apply_timestamp_rules(const SpeechTokens& tokens, std::span<const std::int64_t> text,
                           std::span<float> logits);

}  // namespace sinter::tools
