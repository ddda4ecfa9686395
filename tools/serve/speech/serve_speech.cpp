// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/speech/serve_speech.h"

#include <atomic>
#include <utility>

#include <sinter/engine.h>

#include "runtime/format_error.h"
#include "tools/speech/audio_file.h"
#include "tools/speech/transcriber.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

constexpr double kMostSeconds = 4 * 3600;  // of sound in a request
constexpr int kSequences = 8;              // sounds at once, of a paged plan

/// While it lives, one of those that wait or run.
class Turn {
 public:
  Turn(std::atomic<std::int64_t>& count, std::int64_t most) : count_(count) {
    if (++count_ <= most + 1) return;
    --count_;
    throw QueueFullError(ErrorCode::kUsage,
                         fmt::format("{} requests wait already: try again later", most));
  }
  ~Turn() { --count_; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<std::int64_t>& count_;
};

std::string dumped(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

SpeechAnswer answer_of(const Transcript& transcript, const SpeechRequest& request) {
  if (request.format == "text") return {transcript.text() + "\n", "text/plain; charset=utf-8"};
  if (request.format == "srt") return {to_srt(transcript), "text/plain; charset=utf-8"};
  if (request.format == "vtt") return {to_vtt(transcript), "text/vtt; charset=utf-8"};
  if (request.format == "verbose_json") {
    ordered_json all = to_json(transcript, request.translate);
    if (!request.segments) all.erase("segments");
    return {dumped(all), "application/json"};
  }
  return {dumped({{"text", transcript.text()},
                  {"usage", {{"type", "duration"}, {"seconds", transcript.seconds}}}}),
          "application/json"};
}

class Whisper final : public SpeechModel {
 public:
  Whisper(const Plan& encoder, const Plan& decoder, const Tokenizer& tokenizer,
          const SessionOptions& session, std::int64_t waiting)
      : waiting_(waiting), transcriber_(encoder, decoder, tokenizer, session, kSequences) {
    transcriber_.warm_up();
  }

  SpeechAnswer transcribe(std::span<const std::byte> file, const std::string& name,
                          const SpeechRequest& request) override {
    TranscriptionOptions how;
    how.language = request.language;
    how.translate = request.translate;
    how.timestamps = request.segments || request.format == "srt" || request.format == "vtt";
    how.temperature = request.temperature;
    how.seed = request.seed;
    if (!how.language.empty() && !transcriber_.tokens().languages.empty())
      transcriber_.tokens().language(how.language);  // refused before sound is decoded
    const Turn turn(turns_, waiting_);
    const auto sound = decode_audio(file, name, kMostSeconds);
    return answer_of(transcriber_.transcribe(sound, how), request);
  }

 private:
  std::int64_t waiting_;
  std::atomic<std::int64_t> turns_ = 0;
  Transcriber transcriber_;
};

}  // namespace

std::unique_ptr<SpeechModel> make_speech_model(const Plan& encoder, const Plan& decoder,
                                               const Tokenizer& tokenizer,
                                               const SessionOptions& session,
                                               std::int64_t waiting) {
  return std::make_unique<Whisper>(encoder, decoder, tokenizer, session, waiting);
}

}  // namespace sinter::tools
