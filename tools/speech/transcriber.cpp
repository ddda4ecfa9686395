// SPDX-License-Identifier: Apache-2.0
#include "tools/speech/transcriber.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "runtime/engine/executors/paged_executor.h"
#include "runtime/format_error.h"
#include "tools/generate/ask.h"
#include "tools/speech/audio_file.h"
#include "tools/speech/timestamp_rules.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kAudio = "audio";
constexpr int kStepTokens = 256;     // text of the previous window, with its special tokens
constexpr double kTimestamp = 0.02;  // seconds between consecutive times

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Logarithm of the sum of the exponentials.
double log_sum(std::span<const float> logits) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

std::unique_ptr<engine::PagedExecutor> executor_of(const Plan& decoder,
                                                   const SessionOptions& session, int sequences) {
  engine::PagedExecutorOptions options;
  options.session = session;
  options.max_sequences = sequences;
  const plan::ServingPlan sizes = engine::PagedExecutor::sizes_of(decoder);
  options.max_step_tokens = std::min({kStepTokens, sizes.tokens, sizes.samples});
  options.block_count = std::max(
      2, sequences * ((sizes.sequence_positions + sizes.block_size - 1) / sizes.block_size));
  return std::make_unique<engine::PagedExecutor>(decoder, options);
}

}  // namespace

struct Transcriber::Window {
  std::vector<std::int64_t> text;  // without its end token
  double mean_log_probability = 0, no_speech_probability = 0;
};

Transcriber::Transcriber(const Plan& encoder, const Plan& decoder, const Tokenizer& tokenizer,
                         const SessionOptions& session, int sequences)
    : tokenizer_(tokenizer), decoder_(decoder), encoder_(encoder, session) {
  Encoder::require_pair(encoder, decoder);
  auto executor = executor_of(decoder, session, sequences);
  const auto& inputs = encoder.inputs();
  const bool is_audio = inputs.size() == 1 && inputs[0].name == kAudio &&
                        inputs[0].dtype == DType::kFloat32 && inputs[0].shape.size() == 2 &&
                        inputs[0].shape[1].min == inputs[0].shape[1].max &&
                        inputs[0].shape[0].min == 1 && inputs[0].shape[0].max == 1;
  if (!is_audio)
    throw usage_error(
        "the encoder does not take '{}', f32 [1, samples] of a fixed number of samples: "
        "`sinter help speech` says how one is made",
        kAudio);
  window_ = static_cast<std::size_t>(inputs[0].shape[1].max);
  tokens_ = SpeechTokens::of(tokenizer, executor->limits().vocabulary);
  capacity_ = executor->limits().max_positions;
  engine_ = std::make_unique<Engine>(std::move(executor));
}

double Transcriber::window_seconds() const { return static_cast<double>(window_) / kSampleRate; }

Transcriber::Encoded Transcriber::encode(std::span<const float> samples) {
  const std::scoped_lock lock(encoder_mutex_);
  const auto start = Clock::now();
  audio_.assign(window_, 0);
  std::ranges::copy(samples, audio_.begin());
  encoder_.set_input(kAudio, TensorView::of({1, static_cast<std::int64_t>(window_)}, audio_));
  Encoded encoded = encoder_.run(decoder_);
  if (samples.empty()) return encoded;
  const std::scoped_lock times(times_mutex_);
  times_.encoder.push_back(microseconds_since(start));
  return encoded;
}

void Transcriber::warm_up() { encode({}); }

std::int64_t Transcriber::likeliest_language(std::span<const float> logits) const {
  return std::ranges::max(tokens_.languages, {},
                          [&](const auto& language) {
                            return logits[static_cast<std::size_t>(language.second)];
                          })
      .second;
}

std::vector<float> Transcriber::logits_behind(const Encoded& encoded,
                                              const std::vector<TokenId>& prompt) {
  std::vector<float> found;
  GenerationRequest request;
  request.prompt = prompt;
  request.encoded = encoded;
  request.sampling.max_tokens = 1;
  request.sampling.adjust = [&](std::span<const TokenId>, std::span<float> logits) {
    found.assign(logits.begin(), logits.end());
  };
  ask(*engine_, std::move(request), [](const GenerationOutput&) {});
  return found;
}

Transcriber::Window Transcriber::decode(const Encoded& encoded,
                                        std::span<const std::int64_t> before,
                                        const TranscriptionOptions& options, bool with_times,
                                        std::optional<std::int64_t>& language, std::uint64_t draw) {
  const auto start = Clock::now();
  const auto start_token = static_cast<TokenId>(tokens_.start);
  // After <|startoftranscript|> the model predicts whether there is speech, and the language. The
  // language is predicted without the previous text.
  if (!language && !tokens_.languages.empty())
    language = likeliest_language(logits_behind(encoded, {start_token}));
  GenerationRequest request;
  request.encoded = encoded;
  std::vector<TokenId>& prompt = request.prompt;
  const std::size_t most_before = static_cast<std::size_t>(capacity_) / 2 - 1;
  if (!before.empty()) {
    prompt.push_back(static_cast<TokenId>(tokens_.previous));
    const auto last = before.last(std::min(before.size(), most_before));
    prompt.insert(prompt.end(), last.begin(), last.end());
  }
  prompt.push_back(start_token);
  Window window;
  const std::vector<float> after_start = logits_behind(encoded, prompt);
  window.no_speech_probability =
      std::exp(after_start[static_cast<std::size_t>(tokens_.no_speech)] - log_sum(after_start));
  const auto add = [&](std::int64_t id) { prompt.push_back(static_cast<TokenId>(id)); };
  if (language) {
    add(*language);
    add(options.translate ? tokens_.translate : tokens_.transcribe);
  }
  if (!with_times) add(tokens_.no_timestamps);

  SamplingParameters& sampling = request.sampling;
  sampling.temperature = options.temperature;
  sampling.seed = options.seed + draw;
  sampling.stop_tokens = {static_cast<TokenId>(tokens_.end)};
  sampling.max_tokens = std::min(capacity_ / 2, capacity_ - std::ssize(prompt) + 1);
  std::vector<float> drawn_from;
  sampling.adjust = [&](std::span<const TokenId> text, std::span<float> logits) {
    const auto forbid = [&](std::int64_t id) {
      if (id < std::ssize(logits))
        logits[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
    };
    std::ranges::for_each(tokens_.suppressed, forbid);
    if (text.empty()) {
      forbid(tokens_.space);
      forbid(tokens_.end);
    }
    if (with_times) apply_timestamp_rules(tokens_, window.text, logits);
    drawn_from.assign(logits.begin(), logits.end());
  };
  double sum = 0;
  std::vector<double> between;
  std::optional<double> first;
  auto step = start;
  ask(*engine_, std::move(request), [&](const GenerationOutput& output) {
    for (const TokenId id : output.tokens) {
      sum += drawn_from[static_cast<std::size_t>(id)] - log_sum(drawn_from);
      const double us = microseconds_since(step);
      first ? between.push_back(us) : void(first = us);
      step = Clock::now();
      if (id != tokens_.end) window.text.push_back(id);
    }
  });
  window.mean_log_probability = sum / static_cast<double>(window.text.size() + 1);
  const std::scoped_lock lock(times_mutex_);
  if (first) times_.first_tokens.push_back(*first);
  times_.between_tokens.insert(times_.between_tokens.end(), between.begin(), between.end());
  return window;
}

namespace {

/// The timed segments of a window, and the distance to the next window's begin.
struct Cut {
  struct Part {
    double begin = 0, end = 0;  // seconds
    std::span<const std::int64_t> tokens;
  };
  std::vector<Part> parts;
  double seconds = 0;
};

Cut cut_at_times(std::span<const std::int64_t> text, std::int64_t first, double seconds) {
  Cut cut;
  cut.seconds = seconds;
  const auto is_time = [&](std::size_t i) { return text[i] >= first; };
  const auto time_of = [&](std::size_t i) {
    return static_cast<double>(text[i] - first) * kTimestamp;
  };
  const std::size_t size = text.size();
  std::vector<std::size_t> ends;  // index after the end of each segment that another one follows
  for (std::size_t i = 1; i < size; ++i)
    if (is_time(i) && is_time(i - 1)) ends.push_back(i);
  const bool ends_whole = size >= 2 && is_time(size - 1) && !is_time(size - 2);
  if (ends.empty()) {
    // A single segment, up to its own end time if there is one.
    double end = seconds;
    for (std::size_t i = 0; i < size; ++i)
      if (is_time(i) && text[i] != first) end = std::min(seconds, time_of(i));
    cut.parts.push_back({0, end, text});
    return cut;
  }
  if (ends_whole) ends.push_back(size);
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const double from = is_time(begin) ? time_of(begin) : 0;
    cut.parts.push_back({from, time_of(end - 1), text.subspan(begin, end - begin)});
    begin = end;
  }
  // The window contains only the begin of the segment after the last pair: the next window starts
  // there.
  if (!ends_whole) cut.seconds = std::min(seconds, time_of(ends.back() - 1));
  return cut;
}

}  // namespace

Transcript Transcriber::transcribe(std::span<const float> samples,
                                   const TranscriptionOptions& options,
                                   const std::function<void(const Segment&)>& show) {
  // The encoder's output is the one session's.
  Transcript transcript;
  transcript.seconds = static_cast<double>(samples.size()) / kSampleRate;
  std::optional<std::int64_t> language;
  if (tokens_.languages.empty()) {
    if (options.translate || (!options.language.empty() && options.language != "en"))
      throw usage_error(
          "the model knows English alone: it takes no other language and translates "
          "nothing");
    transcript.language = "en";
  } else if (!options.language.empty()) {
    language = tokens_.language(options.language);
  }
  const bool with_times = options.timestamps || samples.size() > window_;
  std::vector<std::int64_t> before;
  std::uint64_t draw = 0;
  for (std::size_t at = 0; at < samples.size();) {
    const auto part = samples.subspan(at, std::min(window_, samples.size() - at));
    const double seconds = static_cast<double>(part.size()) / kSampleRate;
    const double from = static_cast<double>(at) / kSampleRate;
    const Encoded encoded = encode(part);
    const Window window = decode(encoded, before, options, with_times, language, draw++);
    if (window.no_speech_probability > options.no_speech_probability &&
        window.mean_log_probability < options.silent_log_probability) {
      at += part.size();
      continue;
    }
    Cut cut = with_times ? cut_at_times(window.text, tokens_.first_timestamp, seconds)
                         : Cut{{{0, seconds, window.text}}, seconds};
    for (const auto& each : cut.parts) {
      Segment segment{from + each.begin,
                      from + each.end,
                      {},
                      {each.tokens.begin(), each.tokens.end()},
                      window.mean_log_probability,
                      window.no_speech_probability};
      std::vector<std::int64_t> words;
      std::ranges::copy_if(each.tokens, std::back_inserter(words),
                           [&](std::int64_t id) { return id < tokens_.end; });
      segment.text = tokenizer_.decode(words, true);
      if (segment.text.find_first_not_of(' ') == std::string::npos) continue;
      if (with_times && segment.begin == segment.end) continue;
      if (show) show(segment);
      if (options.previous_text)
        before.insert(before.end(), each.tokens.begin(), each.tokens.end());
      transcript.segments.push_back(std::move(segment));
    }
    // An empty window would repeat forever.
    const auto moved = static_cast<std::size_t>(std::llround(cut.seconds * kSampleRate));
    at += moved == 0 ? part.size() : moved;
  }
  if (language)
    for (const auto& [code, id] : tokens_.languages)
      if (id == *language) transcript.language = code;
  return transcript;
}

}  // namespace sinter::tools
