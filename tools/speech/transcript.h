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
  double mean_log_probability = 0;  // of the tokens in its window
  double no_speech_probability = 0;
};

struct Transcript {
  std::string language;  // a code such as "en"
  double seconds = 0;    // length of the sound
  std::vector<Segment> segments;

  /// The text of all segments, without surrounding white space.
  std::string text() const;
};

/// "01:02.345", or with hours "01:02:03.450".
std::string time_text(double seconds, bool hours, char before_milliseconds);

/// Subtitles in SubRip (.srt) and WebVTT format.
std::string to_srt(const Transcript& transcript);
std::string to_vtt(const Transcript& transcript);

/// In the format of OpenAI's API with response_format verbose_json.
nlohmann::ordered_json to_json(const Transcript& transcript, bool translated);

}  // namespace sinter::tools
