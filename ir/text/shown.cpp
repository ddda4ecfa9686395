// SPDX-License-Identifier: Apache-2.0
#include "ir/text/shown.h"

#include <cstddef>

#include <fmt/format.h>

namespace sinter::ir {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t size = 0;  // 0: invalid UTF-8
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < size) return {};
  char32_t code = byte(0) & (0xff >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[size] || code > 0x10ffff || is_surrogate ? Character()
                                                                : Character{code, size};
}

/// False for control characters, line and paragraph separators, and bidirectional controls.
bool is_harmless(char32_t code) {
  return code >= 0x20 && !(code >= 0x7f && code < 0xa0) && code != 0x2028 && code != 0x2029 &&
         !(code >= 0x202a && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069);
}

std::string escape(char32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  return code < 0x80 ? fmt::format("\\x{:02x}", static_cast<unsigned>(code))
                     : fmt::format("\\u{:04x}", static_cast<unsigned>(code));
}

std::string with_escapes(std::string_view text, bool keep_lines) {
  std::string result;
  while (!text.empty()) {
    const Character c = first_character(text);
    const bool is_kept = keep_lines && (c.code == '\n' || c.code == '\t');
    if (c.size == 0) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_kept || is_harmless(c.code)) {
      result += text.substr(0, c.size);
    } else {
      result += escape(c.code);
    }
    text.remove_prefix(c.size == 0 ? 1 : c.size);
  }
  return result;
}

}  // namespace

std::string shown(std::string_view text) { return with_escapes(text, false); }
std::string shown_lines(std::string_view text) { return with_escapes(text, true); }

}  // namespace sinter::ir
