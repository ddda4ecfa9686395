// SPDX-License-Identifier: Apache-2.0
// UTF-8, as far as text that arrives in pieces needs it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sinter::engine {

/// Bytes of the character that begins with `first`; 0 if none does.
std::size_t utf8_length(char first);

/// Appends the character `code` (below U+10000) to `text`.
void append_utf8(std::string& text, char32_t code);

/// `text` with U+FFFD for each longest part that is not UTF-8.
std::string repaired_utf8(std::string_view text);

/// Gives back text that arrives in pieces as whole characters.
class Utf8Stream {
 public:
  /// All characters that are whole by now, repaired.
  std::string add(std::string_view bytes);
  /// What is left, repaired.
  std::string finish();

 private:
  std::string rest_;
};

}  // namespace sinter::engine
