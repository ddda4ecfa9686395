#include "tools/tokenizer/text_split.h"

#include <algorithm>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

/// PCRE2's \s has one character (U+180E) that Unicode's white space, which patterns mean, has not.
std::string with_unicode_spaces(std::string_view pattern) {
  std::string result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      result += pattern[i];
      continue;
    }
    const char next = pattern[++i];
    if (next == 's')
      result += "\\p{White_Space}";
    else if (next == 'S')
      result += "\\P{White_Space}";
    else
      result += {'\\', next};
  }
  return result;
}

struct Part {
  std::size_t begin, end;
  bool matches;
};

/// All of the text, in order, cut at the matches' borders.
std::vector<Part> parts_of(std::string_view text, const TextPattern& pattern) {
  std::vector<Part> parts;
  std::size_t at = 0;
  for (const auto& match : pattern.matches(text)) {
    if (match.begin > at) parts.push_back({at, match.begin, false});
    parts.push_back({match.begin, match.end, true});
    at = match.end;
  }
  if (at < text.size()) parts.push_back({at, text.size(), false});
  return parts;
}

/// Joins neighbours a, b wherever `joins(a, b)`. A joined part is like `keeps_second` says.
template <typename Joins>
void join(std::vector<Part>& parts, bool keeps_second, const Joins& joins) {
  std::vector<Part> result;
  for (const Part& part : parts) {
    if (!result.empty() && joins(result.back(), part)) {
      result.back().end = part.end;
      if (keeps_second) result.back().matches = part.matches;
    } else {
      result.push_back(part);
    }
  }
  parts = std::move(result);
}

}  // namespace

struct TextPattern::Code {
  pcre2_code* code = nullptr;
  std::string pattern;
  ~Code() { pcre2_code_free(code); }
};

TextPattern::TextPattern(const std::string& pattern) : code_(std::make_unique<Code>()) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->pattern = pattern;
  const std::string spelled = with_unicode_spaces(pattern);
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (code_->code == nullptr)
    throw unsupported_error("the pattern '{}' is not understood at character {} of '{}': {}",
                            pattern, offset, spelled, message_of(error));
  // Where the machine has no compiler for patterns, they are interpreted.
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);
}
TextPattern::~TextPattern() = default;
TextPattern::TextPattern(TextPattern&&) noexcept = default;
TextPattern& TextPattern::operator=(TextPattern&&) noexcept = default;

std::vector<TextPattern::Match> TextPattern::matches(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), &pcre2_match_data_free);
  if (data == nullptr) throw Error(ErrorCode::kOutOfMemory, "out of host memory");
  std::vector<Match> found;
  // The text is checked once, and then not again for each match.
  std::uint32_t checked = 0;
  for (std::size_t at = 0; at < text.size();) {
    const int count = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), at, PCRE2_NOTEMPTY | checked, data.get(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0)
      throw usage_error("the text cannot be cut by '{}': {}", code_->pattern, message_of(count));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    found.push_back({ends[0], ends[1]});
    at = ends[1];
    checked = PCRE2_NO_UTF_CHECK;
  }
  return found;
}

std::vector<std::string_view> split_text(std::string_view text, const TextPattern& pattern,
                                         SplitBehavior behavior, bool invert) {
  auto parts = parts_of(text, pattern);
  if (invert)
    for (auto& part : parts) part.matches = !part.matches;
  switch (behavior) {
    case SplitBehavior::kIsolated: break;
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.matches; });
      break;
    case SplitBehavior::kMergedWithPrevious:
      join(parts, true, [](const Part& a, const Part& b) { return !a.matches && b.matches; });
      break;
    case SplitBehavior::kMergedWithNext: {
      // From the right: a match joins what follows, unless that begins with a match itself.
      std::vector<Part> result;
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        if (!result.empty() && part->matches && !result.back().matches) {
          result.back().begin = part->begin;
          result.back().matches = true;
        } else {
          result.push_back(*part);
        }
      }
      std::ranges::reverse(result);
      parts = std::move(result);
      break;
    }
    case SplitBehavior::kContiguous:
      join(parts, false, [](const Part& a, const Part& b) { return a.matches == b.matches; });
      break;
  }
  std::vector<std::string_view> texts;
  for (const auto& part : parts) texts.push_back(text.substr(part.begin, part.end - part.begin));
  return texts;
}

}  // namespace sinter::tools
