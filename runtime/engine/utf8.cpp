// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/utf8.h"

#include <algorithm>
#include <utility>

namespace sinter::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// Whether `second` may follow `first`: excludes overlong encodings, surrogates and values above
/// U+10FFFF. Source: table 3-7 of the Unicode standard.
bool is_second(unsigned char first, unsigned char second) {
  switch (first) {
    case 0xE0: return second >= 0xA0 && second <= 0xBF;
    case 0xED: return second >= 0x80 && second <= 0x9F;
    case 0xF0: return second >= 0x90 && second <= 0xBF;
    case 0xF4: return second >= 0x80 && second <= 0x8F;
    default: return second >= 0x80 && second <= 0xBF;
  }
}

/// Number of bytes from `at` that form a prefix of one character; at least 1 unless at the end.
std::size_t valid_prefix(std::string_view text, std::size_t at) {
  const std::size_t length = utf8_length(text[at]);
  std::size_t n = 1;
  while (n < length && at + n < text.size() &&
         (n == 1 ? is_second(byte_at(text, at), byte_at(text, at + 1))
                 : (byte_at(text, at + n) & 0xC0) == 0x80))
    ++n;
  return n;
}

}  // namespace

std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xC2) return 0;
  if (byte < 0xE0) return 2;
  if (byte < 0xF0) return 3;
  return byte < 0xF5 ? 4 : 0;
}

void append_utf8(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    text += static_cast<char>(0xE0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
}

std::string repaired_utf8(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = valid_prefix(text, at);
    result += n == utf8_length(text[at]) ? text.substr(at, n) : kReplacement;
    at += n;
  }
  return result;
}

std::string Utf8Stream::add(std::string_view bytes) {
  rest_ += bytes;
  std::size_t whole = rest_.size();
  // Only the last three bytes can start an incomplete character.
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, rest_.size()); ++back) {
    const std::size_t at = rest_.size() - back;
    const std::size_t length = utf8_length(rest_[at]);
    if (length > back && valid_prefix(rest_, at) == back) whole = at;
    if (length != 0) break;
  }
  std::string text = repaired_utf8(std::string_view(rest_).substr(0, whole));
  rest_.erase(0, whole);
  return text;
}

std::string Utf8Stream::finish() { return repaired_utf8(std::exchange(rest_, {})); }

}  // namespace sinter::engine
