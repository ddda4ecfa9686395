// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/unicode/text_pattern.h"

#include <cctype>

#include <oniguruma.h>

#include "runtime/format_error.h"
#include "tools/tokenizer/unicode/pattern_encoding.h"
#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {
namespace {

constexpr std::size_t kMostOfPattern = 1U << 16;  // maximum bytes
// Maximum backtracking entries, of about 50 bytes each.
constexpr unsigned kMostOnStack = 1U << 22;
// Maximum backtracking steps of one search: a constant, and a limit per byte of the text.
constexpr unsigned long kMostRetries = 10'000'000, kMostRetriesForByte = 100;

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string message_of(int code, OnigErrorInfo* info = nullptr) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = info == nullptr ? onig_error_code_to_str(text, code)
                                     : onig_error_code_to_str(text, code, info);
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(length)};
}

}  // namespace

struct TextPattern::Code {
  regex_t* code = nullptr;
  std::string pattern;
  ~Code() { onig_free(code); }
};

TextPattern::TextPattern(const std::string& pattern) : code_(std::make_unique<Code>()) {
  if (pattern.size() > kMostOfPattern)
    throw unsupported_error("a pattern of {} bytes is not supported: {} at most", pattern.size(),
                            kMostOfPattern);
  code_->pattern = pattern;
  OnigErrorInfo info;
  const int status =
      onig_new(&code_->code, bytes_of(pattern), bytes_of(pattern) + pattern.size(),
               ONIG_OPTION_NONE, unicode::pattern_encoding(), ONIG_SYNTAX_DEFAULT, &info);
  if (status != ONIG_NORMAL)
    throw unsupported_error("the pattern '{}' is not understood: {}", pattern,
                            message_of(status, &info));
}

TextPattern TextPattern::of_literal(std::string_view text) {
  std::string pattern;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t code = unicode::next_character(text, at);
    if (code < 0x80 && std::isalnum(static_cast<int>(code)) == 0 && code > ' ') pattern += '\\';
    pattern += text.substr(begin, at - begin);
  }
  return TextPattern(pattern);
}

TextPattern::~TextPattern() = default;
TextPattern::TextPattern(TextPattern&&) noexcept = default;
TextPattern& TextPattern::operator=(TextPattern&&) noexcept = default;

void TextPattern::for_each_match(std::string_view text,
                                 const std::function<void(std::size_t, std::size_t)>& use) const {
  struct Region {
    OnigRegion* region = onig_region_new();
    ~Region() { onig_region_free(region, 1); }
  } const found;
  struct Limits {
    OnigMatchParam* param = onig_new_match_param();
    ~Limits() { onig_free_match_param(param); }
  } const limits;
  if (found.region == nullptr || limits.param == nullptr)
    throw Error(ErrorCode::kOutOfMemory, "out of host memory");
  onig_initialize_match_param(limits.param);
  onig_set_match_stack_limit_size_of_match_param(limits.param, kMostOnStack);
  onig_set_retry_limit_in_match_of_match_param(limits.param, kMostRetries);
  onig_set_retry_limit_in_search_of_match_param(limits.param,
                                                kMostRetries + kMostRetriesForByte * text.size());
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const OnigUChar* const begin = bytes_of(text);
  const OnigUChar* const end = begin + text.size();
  std::size_t last = kNone;
  for (std::size_t at = 0; at <= text.size();) {
    const int status = onig_search_with_param(code_->code, begin, end, begin + at, end,
                                              found.region, ONIG_OPTION_NONE, limits.param);
    if (status == ONIG_MISMATCH) return;
    if (status < 0)
      throw usage_error("the text cannot be cut by '{}': {}", code_->pattern, message_of(status));
    const auto from = static_cast<std::size_t>(found.region->beg[0]);
    const auto to = static_cast<std::size_t>(found.region->end[0]);
    if (from == to && to == last) {
      at += at < text.size() ? unicode::length_of(text[at]) : 1;
      continue;
    }
    use(from, to);
    at = last = to;
  }
}

}  // namespace sinter::tools
