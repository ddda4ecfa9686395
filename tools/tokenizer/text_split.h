// How a tokenizer cuts text before it looks for tokens: the "pre_tokenizer" of tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools {

/// A pattern over Unicode text, compiled once.
class TextPattern {
 public:
  /// `pattern` in the syntax of PCRE2 with Unicode classes. Throws Error(kUnsupported) for what
  /// that does not know.
  explicit TextPattern(const std::string& pattern);
  ~TextPattern();
  TextPattern(TextPattern&&) noexcept;
  TextPattern& operator=(TextPattern&&) noexcept;

  struct Match {
    std::size_t begin = 0, end = 0;
  };
  /// Matches in `text` from left to right, without empty ones. Throws Error(kUsage) where `text` is
  /// not UTF-8 or takes too long.
  std::vector<Match> matches(std::string_view text) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

/// What becomes of the parts that match: parts of their own; dropped; joined with the part before
/// or behind; or neighbouring matches one part.
enum class SplitBehavior : std::uint8_t {
  kIsolated,
  kRemoved,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous
};

/// `text` in parts. With `invert` what does not match counts as matching.
std::vector<std::string_view> split_text(std::string_view text, const TextPattern& pattern,
                                         SplitBehavior behavior, bool invert);

}  // namespace sinter::tools
