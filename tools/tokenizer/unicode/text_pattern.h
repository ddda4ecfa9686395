// SPDX-License-Identifier: Apache-2.0
// Regular expressions over text, as Oniguruma has them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sinter::tools {

/// Compiled once; may be used by many threads.
class TextPattern {
 public:
  /// `pattern` in Oniguruma's syntax. Throws Error(kUnsupported) for what that does not know.
  explicit TextPattern(const std::string& pattern);
  /// What is `text` itself.
  static TextPattern of_literal(std::string_view text);
  ~TextPattern();
  TextPattern(TextPattern&&) noexcept;
  TextPattern& operator=(TextPattern&&) noexcept;

  /// Calls `use` with the begin and the end of each match in `text` (UTF-8) from left to right,
  /// empty ones too but for those where the last match ends. Throws Error(kUsage) for a text that
  /// takes too many steps or too much memory.
  void for_each_match(std::string_view text,
                      const std::function<void(std::size_t, std::size_t)>& use) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace sinter::tools
