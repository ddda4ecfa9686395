// SPDX-License-Identifier: Apache-2.0
// Regular expressions over text, as Oniguruma has them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sinter::tools {

/// A compiled regular expression; thread-safe.
class TextPattern {
 public:
  /// `pattern` in Oniguruma's syntax. Throws Error(kUnsupported) if Oniguruma rejects it.
  explicit TextPattern(const std::string& pattern);
  /// Matches `text` literally.
  static TextPattern of_literal(std::string_view text);
  ~TextPattern();
  TextPattern(TextPattern&&) noexcept;
  TextPattern& operator=(TextPattern&&) noexcept;

  /// Calls `use` with begin and end of each match in `text` (UTF-8) from left to right. Includes
  /// empty matches, except directly after the previous match. Throws Error(kUsage) for a text that
  /// needs too many steps or too much memory.
  void for_each_match(std::string_view text,
                      const std::function<void(std::size_t, std::size_t)>& use) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace sinter::tools
