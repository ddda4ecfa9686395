// SPDX-License-Identifier: Apache-2.0
// Which tokens may follow in a text with times, as the Whisper paper has it and OpenAI's decoder
// does.
#pragma once

#include <cstdint>
#include <span>

#include "tools/speech/speech_tokens.h"

namespace sinter::tools {

/// Makes the logits of tokens that may not follow `text` (the tokens since the prompt) minus
/// infinity: times come in pairs, the end of a segment and the begin of the next, but for the last
/// one; they do not go back; a segment is not empty; the first token is a time of the first second;
/// and where all times together are likelier than any other token, it is a time.
void apply_timestamp_rules(const SpeechTokens& tokens, std::span<const std::int64_t> text,
                           std::span<float> logits);

}  // namespace sinter::tools
