// SPDX-License-Identifier: Apache-2.0
// What Unicode says of characters, and UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/tokenizer/unicode/unicode_data.h"

namespace sinter::tools::unicode {

/// `code` below kLimit.
const UnicodeRecord& record_of(char32_t code);

/// The property White_Space.
bool is_white_space(char32_t code);
/// `\w` as Unicode's regular expressions have it: letters, marks, digits, joints. As of Unicode 16.
bool is_word(char32_t code);
/// The small letter; U+0130, the one that has two characters, stays.
char32_t lowercase(char32_t code);

/// Bytes of the character that begins with `first`, which is no continuation.
inline std::size_t length_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The character at `at`, which goes behind it. `text` is UTF-8; of what is not, some character.
inline char32_t next_character(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return text[at++];
  const std::size_t length = length_of(text[at]), left = text.size() - at;
  char32_t code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length && i < left; ++i)
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  at += length < left ? length : left;
  return code < kLimit ? code : 0xFFFD;
}
/// The character that ends at `end`, which goes in front of it; `end` is not 0.
char32_t previous_character(std::string_view text, std::size_t& end);
void append(std::string& text, char32_t code);
bool is_ascii(std::string_view text);

/// `text` without white space at its beginning (`left`) or its end.
std::string_view without_space_at(bool left, std::string_view text);

}  // namespace sinter::tools::unicode
