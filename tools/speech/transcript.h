// SPDX-License-Identifier: Apache-2.0
// What was said, when, and how it is written down.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sinter::tools {

struct Segment {
  double begin = 0, end = 0;  // seconds
  std::string text;
  std::vector<std::int64_t> tokens;
  double mean_log_probability = 0;  // of the tokens of the window that it is of
  double no_speech_probability = 0;
};

struct Transcript {
  std::string language;  // a code, as "en"
  double seconds = 0;    // of sound
  std::vector<Segment> segments;

  /// Of all segments, without the white space around it.
  std::string text() const;
};

/// "01:02.345", or with hours "01:02:03.450".
std::string time_text(double seconds, bool hours, char before_milliseconds);

/// Subtitles as SubRip (.srt) and as WebVTT have them.
std::string to_srt(const Transcript& transcript);
std::string to_vtt(const Transcript& transcript);

/// As OpenAI's API spells it with response_format verbose_json.
nlohmann::ordered_json to_json(const Transcript& transcript, bool translated);

}  // namespace sinter::tools
