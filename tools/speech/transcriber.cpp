// SPDX-License-Identifier: Apache-2.0
#include "tools/speech/transcriber.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

#include "runtime/engine/sampler.h"
#include "runtime/format_error.h"
#include "tools/speech/audio_file.h"
#include "tools/speech/timestamp_rules.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kAudio = "audio";
constexpr double kTimestamp = 0.02;  // seconds from a time to the next

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// The logarithm of the sum of all exponentials.
double log_sum(std::span<const float> logits) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

engine::SlotSampler sampler_of(const TranscriptionOptions& options, std::uint64_t draw) {
  SamplingParameters sampling;
  sampling.temperature = options.temperature;
  engine::check_sampling(sampling, 0);
  engine::SlotStart start;
  start.seed = options.seed + draw;
  start.sampling = std::make_shared<const SamplingParameters>(sampling);
  return engine::SlotSampler(start);
}

DecoderOptions decoder_options(const Plan& encoder, const Plan& decoder) {
  DecoderOptions options;
  options.given = Encoder::feeds(encoder, decoder);
  return options;
}

SessionOptions on_device(SessionOptions options, const Plan& plan) {
  if (plan.target() != "cpu") options.output_memory = Memory::kDevice;
  return options;
}

}  // namespace

struct Transcriber::Window {
  std::vector<std::int64_t> text;  // without the token that ends it
  double mean_log_probability = 0, no_speech_probability = 0;
};

Transcriber::Transcriber(const Plan& encoder, const Plan& decoder, const Tokenizer& tokenizer,
                         const SessionOptions& session)
    : tokenizer_(tokenizer),
      encoder_(encoder, on_device(session, encoder)),
      decoder_(decoder, decoder_options(encoder, decoder), session) {
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
  if (!decoder_.seeks())
    throw usage_error(
        "the decoder's plan {}: speech needs one that gives logits, with an input for the position "
        "and caches of a fixed size",
        decoder_.sampler() ? "chooses tokens itself (compile it without --sample)"
                           : "is not told where tokens go, or takes no single ones");
  window_ = static_cast<std::size_t>(inputs[0].shape[1].max);
  tokens_ = SpeechTokens::of(tokenizer, decoder_.vocabulary());
}

double Transcriber::window_seconds() const { return static_cast<double>(window_) / kSampleRate; }

void Transcriber::encode(std::span<const float> samples) {
  audio_.assign(window_, 0);
  std::ranges::copy(samples, audio_.begin());
  encoder_.set_input(kAudio, TensorView::of({1, static_cast<std::int64_t>(window_)}, audio_));
  encoder_.run(decoder_);
}

void Transcriber::warm_up() {
  encode({});
  decoder_.warm_up(1, 0);
  decoder_.warm_up(3, 1);
}

std::int64_t Transcriber::likeliest_language(std::span<const float> logits) const {
  return std::ranges::max(tokens_.languages, {},
                          [&](const auto& language) {
                            return logits[static_cast<std::size_t>(language.second)];
                          })
      .second;
}

Transcriber::Window Transcriber::decode(std::span<const std::int64_t> before,
                                        const TranscriptionOptions& options, bool with_times,
                                        std::optional<std::int64_t>& language, std::uint64_t draw) {
  const auto start = Clock::now();
  decoder_.seek(0);
  // Behind <|startoftranscript|> the model says whether there is speech, and in which language. The
  // latter is asked without the text before.
  if (!language && !tokens_.languages.empty())
    language = likeliest_language(decoder_.run({&tokens_.start, 1}));
  std::vector<std::int64_t> prompt;
  const std::size_t most_before = static_cast<std::size_t>(decoder_.capacity()) / 2 - 1;
  if (!before.empty()) {
    prompt.push_back(tokens_.previous);
    const auto last = before.last(std::min(before.size(), most_before));
    prompt.insert(prompt.end(), last.begin(), last.end());
  }
  prompt.push_back(tokens_.start);
  decoder_.seek(0);
  Window window;
  const auto after_start = decoder_.run(prompt);
  window.no_speech_probability =
      std::exp(after_start[static_cast<std::size_t>(tokens_.no_speech)] - log_sum(after_start));
  prompt.clear();
  if (language) prompt = {*language, options.translate ? tokens_.translate : tokens_.transcribe};
  if (!with_times) prompt.push_back(tokens_.no_timestamps);
  // A model of English alone with times has its first logits behind the start.
  std::span<const float> logits = prompt.empty() ? after_start : decoder_.run(prompt);

  auto sampler = sampler_of(options, draw);
  const auto most = static_cast<std::size_t>(decoder_.capacity() / 2);
  double sum = 0;
  auto step = start;
  while (true) {
    logits_.assign(logits.begin(), logits.end());
    const auto forbid = [&](std::int64_t id) {
      if (id < std::ssize(logits_))
        logits_[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
    };
    std::ranges::for_each(tokens_.suppressed, forbid);
    if (window.text.empty()) {
      forbid(tokens_.space);
      forbid(tokens_.end);
    }
    if (with_times) apply_timestamp_rules(tokens_, window.text, logits_);
    const std::int64_t id = sampler.draw(logits_);
    sum += logits_[static_cast<std::size_t>(id)] - log_sum(logits_);
    (window.text.empty() ? times_.first_tokens : times_.between_tokens)
        .push_back(microseconds_since(step));
    step = Clock::now();
    if (id == tokens_.end) break;
    window.text.push_back(id);
    if (window.text.size() >= most || decoder_.position() >= decoder_.capacity()) break;
    logits = decoder_.run({&id, 1});
  }
  window.mean_log_probability = sum / static_cast<double>(window.text.size() + 1);
  return window;
}

namespace {

/// Segments of a window with times, in samples from its begin, and how far the next one is.
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
  std::vector<std::size_t> ends;  // behind the end of a segment that another one follows
  for (std::size_t i = 1; i < size; ++i)
    if (is_time(i) && is_time(i - 1)) ends.push_back(i);
  const bool ends_whole = size >= 2 && is_time(size - 1) && !is_time(size - 2);
  if (ends.empty()) {
    // One segment, to its own end if it says one.
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
  // Behind the last pair a segment begins that the window does not have whole.
  if (!ends_whole) cut.seconds = std::min(seconds, time_of(ends.back() - 1));
  return cut;
}

}  // namespace

Transcript Transcriber::transcribe(std::span<const float> samples,
                                   const TranscriptionOptions& options,
                                   const std::function<void(const Segment&)>& show) {
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
    const auto start = Clock::now();
    encode(part);
    times_.encoder.push_back(microseconds_since(start));
    const Window window = decode(before, options, with_times, language, draw++);
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
    // A window that begins and ends at once would come again.
    const auto moved = static_cast<std::size_t>(std::llround(cut.seconds * kSampleRate));
    at += moved == 0 ? part.size() : moved;
  }
  if (language)
    for (const auto& [code, id] : tokens_.languages)
      if (id == *language) transcript.language = code;
  return transcript;
}

}  // namespace sinter::tools
