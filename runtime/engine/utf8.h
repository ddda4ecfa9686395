// SPDX-License-Identifier: Apache-2.0
// UTF-8 for text that arrives in pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sinter::engine {

/// Length of the character that starts with byte `first`; 0 if none does.
std::size_t utf8_length(char first);

/// Appends the character `code` (below U+10000) to `text`.
void append_utf8(std::string& text, char32_t code);

/// `text` with each maximal invalid part replaced by U+FFFD.
std::string repaired_utf8(std::string_view text);

/// Splits text that arrives in pieces into whole characters.
class Utf8Stream {
 public:
  /// The characters complete so far, repaired.
  std::string add(std::string_view bytes);
  /// The remaining bytes, repaired.
  std::string finish();

 private:
  std::string rest_;
};

}  // namespace sinter::engine
