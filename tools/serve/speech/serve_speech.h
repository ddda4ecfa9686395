// SPDX-License-Identifier: Apache-2.0
// Whisper models for the server: a library of its own, because decoding sound brings others.
#pragma once

#include "tools/serve/models/speech_model.h"

namespace sinter::tools {

/// As MakeSpeechModel says.
std::unique_ptr<SpeechModel> make_speech_model(const Plan& encoder, const Plan& decoder,
                                               const Tokenizer& tokenizer,
                                               const SessionOptions& session, std::int64_t waiting);

}  // namespace sinter::tools
