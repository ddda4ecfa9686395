// SPDX-License-Identifier: Apache-2.0
// Whisper: transcribes sound of any length with an encoder's and a decoder's plan.
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
  std::string language;     // a code such as "en"; empty: the most probable one in the first window
  bool translate = false;   // to English
  bool timestamps = false;  // for each segment, also if the sound fits in one window
  double temperature = 0;   // 0: greedy
  std::uint64_t seed = 0;   // seed of sampling
  /// Whether a window's text precedes the next window's prompt.
  bool previous_text = true;
  /// A window is silent if the probability of "no speech" exceeds the first value and the mean log
  /// probability of its tokens is below the second.
  double no_speech_probability = 0.6, silent_log_probability = -1.0;
};

/// Microseconds.
struct TranscriptionTimes {
  std::vector<double> encoder;       // per window: from sound to the decoder's input
  std::vector<double> first_tokens;  // per window: from the prompt to the first token
  std::vector<double> between_tokens;
};

/// Used by any thread: as many texts are written at once as there are sequences.
class Transcriber {
 public:
  /// Throws Error(kUsage) if the plans are no encoder-decoder pair, saying what is missing, or if
  /// the tokenizer is not Whisper's. `tokenizer` must outlive this.
  Transcriber(const Plan& encoder, const Plan& decoder, const Tokenizer& tokenizer,
              const SessionOptions& session, int sequences = 1);

  /// Transcribes `samples` at kSampleRate. For longer sound, each window starts where the last
  /// complete segment of the previous one ended, by the model's times. Passes each segment to
  /// `show` as soon as it is known. Throws Error(kUsage) for an unknown language.
  Transcript transcribe(std::span<const float> samples, const TranscriptionOptions& options,
                        const std::function<void(const Segment&)>& show = {});

  /// Prepares runs, so that the first is as fast as later ones.
  void warm_up();
  /// Times of all calls; not during a call.
  const TranscriptionTimes& times() const { return times_; }
  /// Length of the encoder's window in seconds.
  double window_seconds() const;
  const SpeechTokens& tokens() const { return tokens_; }

 private:
  using Encoded = std::shared_ptr<const EncoderOutput>;
  struct Window;  // result of one window
  Window decode(const Encoded& encoded, std::span<const std::int64_t> before,
                const TranscriptionOptions& options, bool with_times,
                std::optional<std::int64_t>& language, std::uint64_t draw);
  Encoded encode(std::span<const float> samples);
  /// Logits of the token after `prompt`.
  std::vector<float> logits_behind(const Encoded& encoded, const std::vector<TokenId>& prompt);
  std::int64_t likeliest_language(std::span<const float> logits) const;

  const Tokenizer& tokenizer_;
  Plan decoder_;
  Encoder encoder_;
  std::int64_t capacity_ = 0;
  SpeechTokens tokens_;
  std::size_t window_ = 0;  // length in samples
  std::vector<float> audio_;
  TranscriptionTimes times_;
  std::mutex encoder_mutex_, times_mutex_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace sinter::tools
