// SPDX-License-Identifier: Apache-2.0
// Whisper: what is said in a sound of any length, by an encoder's plan and a decoder's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinter/engine.h>

#include "tools/generate/encoder.h"
#include "tools/speech/speech_tokens.h"
#include "tools/speech/transcript.h"
#include "tools/tokenizer/tokenizer.h"

namespace sinter::tools {

struct TranscriptionOptions {
  std::string language;     // a code, as "en"; empty: the likeliest one of the first window
  bool translate = false;   // to English
  bool timestamps = false;  // of each segment, also of sound that is no longer than a window
  double temperature = 0;   // 0: the likeliest tokens
  std::uint64_t seed = 0;   // of draws
  /// Whether the text of one window stands in front of the next one's.
  bool previous_text = true;
  /// A window is silent if "no speech" is likelier than this and its text is unlikelier, as the
  /// mean logarithm of its tokens' probabilities.
  double no_speech_probability = 0.6, silent_log_probability = -1.0;
};

/// Microseconds.
struct TranscriptionTimes {
  std::vector<double> encoder;       // of each window: sound to what the decoder reads
  std::vector<double> first_tokens;  // of each window: the prompt, to its first token
  std::vector<double> between_tokens;
};

/// Used by any thread: as many texts are written at once as there are sequences.
class Transcriber {
 public:
  /// Throws Error(kUsage) if the plans are no such pair, saying what is missing, or the tokenizer
  /// is none of Whisper's. `tokenizer` outlives it.
  Transcriber(const Plan& encoder, const Plan& decoder, const Tokenizer& tokenizer,
              const SessionOptions& session, int sequences = 1);

  /// `samples` at kSampleRate. Sound that is longer than a window moves on by the times that the
  /// model gives: the window after one begins where its last whole segment ended. Each segment goes
  /// to `show` as soon as it is there. Throws Error(kUsage) for a language that the model does not
  /// have.
  Transcript transcribe(std::span<const float> samples, const TranscriptionOptions& options,
                        const std::function<void(const Segment&)>& show = {});

  /// Prepares runs, so that the first one takes no longer than others.
  void warm_up();
  /// Of all calls; while none runs.
  const TranscriptionTimes& times() const { return times_; }
  /// Seconds of sound that the encoder takes at a time.
  double window_seconds() const;
  const SpeechTokens& tokens() const { return tokens_; }

 private:
  using Encoded = std::shared_ptr<const EncoderOutput>;
  struct Window;  // what came of one
  Window decode(const Encoded& encoded, std::span<const std::int64_t> before,
                const TranscriptionOptions& options, bool with_times,
                std::optional<std::int64_t>& language, std::uint64_t draw);
  Encoded encode(std::span<const float> samples);
  /// Of the token behind `prompt`.
  std::vector<float> logits_behind(const Encoded& encoded, const std::vector<TokenId>& prompt);
  std::int64_t likeliest_language(std::span<const float> logits) const;

  const Tokenizer& tokenizer_;
  Plan decoder_;
  Encoder encoder_;
  std::int64_t capacity_ = 0;
  SpeechTokens tokens_;
  std::size_t window_ = 0;  // samples
  std::vector<float> audio_;
  TranscriptionTimes times_;
  std::mutex encoder_mutex_, times_mutex_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace sinter::tools
