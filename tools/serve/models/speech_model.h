// SPDX-License-Identifier: Apache-2.0
// A model of speech as the server asks it: the sound of a file in, a text out. What decodes sound
// is a library of its own, which who serves is given (as gRPC is).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <sinter/plan.h>
#include <sinter/session.h>

#include "tools/tokenizer/tokenizer.h"

namespace sinter::tools {

struct SpeechRequest {
  std::string language;    // a code, as "en"; empty: the likeliest
  bool translate = false;  // to English
  bool segments = false;   // with the times of segments
  std::string format;      // json, text, verbose_json, srt or vtt
  double temperature = 0;  // 0: the likeliest tokens
  std::uint64_t seed = 0;  // of draws
};

struct SpeechAnswer {
  std::string text, content_type;
};

class SpeechModel {
 public:
  virtual ~SpeechModel() = default;
  /// `file`: the bytes of a file of sound, which errors call `name`. Throws Error(kUsage) for sound
  /// that cannot be read, is too long, and for a language that the model does not have;
  /// QueueFullError if as many wait as may. From any thread.
  virtual SpeechAnswer transcribe(std::span<const std::byte> file, const std::string& name,
                                  const SpeechRequest& request) = 0;
};

/// Of the two plans of a Whisper model. `waiting`: requests that wait at most. Throws Error(kUsage)
/// if they are no such pair. `tokenizer` outlives it.
using MakeSpeechModel = std::unique_ptr<SpeechModel> (*)(const Plan& encoder, const Plan& decoder,
                                                         const Tokenizer& tokenizer,
                                                         const SessionOptions& session,
                                                         std::int64_t waiting);

}  // namespace sinter::tools
