// SPDX-License-Identifier: Apache-2.0
#include "tools/speech/transcript.h"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace sinter::tools {
namespace {

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

}  // namespace

std::string Transcript::text() const {
  std::string result;
  for (const Segment& segment : segments) result += segment.text;
  return trimmed(result);
}

std::string time_text(double seconds, bool hours, char before_milliseconds) {
  const auto all = static_cast<std::int64_t>(std::llround(seconds * 1000));
  const std::int64_t minutes = all / 60'000;
  const std::string rest =
      fmt::format("{:02}{}{:03}", all / 1000 % 60, before_milliseconds, all % 1000);
  if (!hours && minutes < 60) return fmt::format("{:02}:{}", minutes, rest);
  return fmt::format("{:02}:{:02}:{}", minutes / 60, minutes % 60, rest);
}

std::string to_srt(const Transcript& transcript) {
  std::string result;
  int number = 0;
  for (const Segment& segment : transcript.segments)
    result += fmt::format("{}\n{} --> {}\n{}\n\n", ++number, time_text(segment.begin, true, ','),
                          time_text(segment.end, true, ','), trimmed(segment.text));
  return result;
}

std::string to_vtt(const Transcript& transcript) {
  std::string result = "WEBVTT\n\n";
  for (const Segment& segment : transcript.segments)
    result += fmt::format("{} --> {}\n{}\n\n", time_text(segment.begin, false, '.'),
                          time_text(segment.end, false, '.'), trimmed(segment.text));
  return result;
}

nlohmann::ordered_json to_json(const Transcript& transcript, bool translated) {
  nlohmann::ordered_json segments = nlohmann::ordered_json::array();
  for (const Segment& segment : transcript.segments)
    segments.push_back({{"id", segments.size()},
                        {"start", segment.begin},
                        {"end", segment.end},
                        {"text", segment.text},
                        {"tokens", segment.tokens},
                        {"avg_logprob", segment.mean_log_probability},
                        {"no_speech_prob", segment.no_speech_probability}});
  return {{"task", translated ? "translate" : "transcribe"},
          {"language", transcript.language},
          {"duration", transcript.seconds},
          {"text", transcript.text()},
          {"segments", std::move(segments)}};
}

}  // namespace sinter::tools
