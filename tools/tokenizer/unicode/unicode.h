// SPDX-License-Identifier: Apache-2.0
// What Unicode says of characters, and UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/tokenizer/unicode/unicode_data.h"

namespace sinter::tools::unicode {

/// `code` must be below kLimit.
const UnicodeRecord& record_of(char32_t code);

/// The property White_Space.
bool is_white_space(char32_t code);
/// `\w` in Unicode's regular expressions: letters, marks, digits, joiners; as of Unicode 16.
bool is_word(char32_t code);
/// The lower-case letter; U+0130, which maps to two characters, is unchanged.
char32_t lowercase(char32_t code);

/// Length in bytes of the UTF-8 character with first byte `first`, which is no continuation byte.
inline std::size_t length_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Decodes the character at `at` and advances `at`. `text` must be UTF-8; otherwise the result is
/// arbitrary.
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
/// Decodes the character that ends at `end` and moves `end` before it; `end` is not 0.
char32_t previous_character(std::string_view text, std::size_t& end);
void append(std::string& text, char32_t code);
bool is_ascii(std::string_view text);

/// `text` without white space at its beginning (`left`) or its end.
std::string_view without_space_at(bool left, std::string_view text);

}  // namespace sinter::tools::unicode
