#include "tools/tokenizer/text_normalizer.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <new>

#include <utf8proc.h>

namespace sinter::tools {
namespace {

/// Calls `use` with each character of `text`, which is UTF-8, and its bytes.
template <typename Use>
void for_each_character(std::string_view text, const Use& use) {
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const auto length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                         static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (length <= 0) return;  // no UTF-8: callers have looked
    use(code, text.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
}

void append(std::string& text, utf8proc_int32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(code, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::string mapped(std::string_view text, int options) {
  struct Free {
    void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
  };
  utf8proc_uint8_t* bytes = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &bytes,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  if (length < 0) throw std::bad_alloc();
  const std::unique_ptr<utf8proc_uint8_t, Free> owner(bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length)};
}

bool is_space(utf8proc_int32_t code) {
  const auto category = utf8proc_category(code);
  return (code >= '\t' && code <= '\r') || code == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool is_mark(utf8proc_int32_t code, bool nonspacing_alone) {
  const auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_MN ||
         (!nonspacing_alone &&
          (category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME));
}

bool is_punctuation(utf8proc_int32_t code) {
  if (code < 0x80) return std::ispunct(static_cast<int>(code)) != 0;
  const auto category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/// Chinese characters as BERT counts them: not Hiragana, Katakana and Hangul.
bool is_ideograph(utf8proc_int32_t code) {
  constexpr utf8proc_int32_t kRanges[][2] = {
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
      {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kRanges)
    if (code >= first && code <= last) return true;
  return false;
}

std::string cleaned(std::string_view text) {
  std::string result;
  for_each_character(text, [&](utf8proc_int32_t code, std::string_view bytes) {
    const bool is_blank = code == '\t' || code == '\n' || code == '\r';
    const auto category = utf8proc_category(code);
    if (!is_blank && (code == 0xFFFD || category == UTF8PROC_CATEGORY_CC ||
                      category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO))
      return;
    if (is_blank || is_space(code))
      result += ' ';
    else
      result += bytes;
  });
  return result;
}

std::string lowered(std::string_view text) {
  constexpr utf8proc_int32_t kDottedI = 0x130;  // the one whose small letter is two characters
  std::string result;
  for_each_character(text, [&](utf8proc_int32_t code, std::string_view) {
    append(result, code == kDottedI ? 'i' : utf8proc_tolower(code));
    if (code == kDottedI) append(result, 0x307);
  });
  return result;
}

std::string without_marks(std::string_view text, bool nonspacing_alone) {
  std::string result;
  for_each_character(text, [&](utf8proc_int32_t code, std::string_view bytes) {
    if (!is_mark(code, nonspacing_alone)) result += bytes;
  });
  return result;
}

std::string with_spaced_ideographs(std::string_view text) {
  std::string result;
  for_each_character(text, [&](utf8proc_int32_t code, std::string_view bytes) {
    const char* const around = is_ideograph(code) ? " " : "";
    result += around;
    result += bytes;
    result += around;
  });
  return result;
}

/// As SentencePiece's rules for machine translation.
std::string cleaned_for_translation(std::string_view text) {
  std::string result;
  for_each_character(text, [&](utf8proc_int32_t code, std::string_view bytes) {
    const bool is_blank = code == 0x9 || code == 0xA || code == 0xC || code == 0xD ||
                          code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028 ||
                          code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    const bool is_control = (code >= 0x1 && code <= 0x8) || code == 0xB ||
                            (code >= 0xE && code <= 0x1F) || code == 0x7F || code == 0x8F ||
                            code == 0x9F;
    if (!is_control) result += is_blank ? " " : bytes;
  });
  return result;
}

std::string with_matches_replaced(std::string_view text, const TextPattern& pattern,
                                  std::string_view by) {
  std::string result;
  std::size_t done = 0;
  for (const auto& [begin, end] : pattern.matches(text)) {
    result += text.substr(done, begin - done);
    result += by;
    done = end;
  }
  return result += text.substr(done);
}

std::string applied(TextNormalizer::Step step, std::string_view text) {
  switch (step) {
    case TextNormalizer::Step::kNfc: return mapped(text, UTF8PROC_COMPOSE);
    case TextNormalizer::Step::kNfd: return mapped(text, UTF8PROC_DECOMPOSE);
    case TextNormalizer::Step::kNfkc: return mapped(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case TextNormalizer::Step::kNfkd: return mapped(text, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
    case TextNormalizer::Step::kLowercase: return lowered(text);
    case TextNormalizer::Step::kStripAccents: return without_marks(text, false);
    case TextNormalizer::Step::kCleanText: return cleaned(text);
    case TextNormalizer::Step::kSpaceIdeographs: return with_spaced_ideographs(text);
    case TextNormalizer::Step::kStripNonspacingMarks:
      return without_marks(mapped(text, UTF8PROC_DECOMPOSE), true);
    case TextNormalizer::Step::kStripLeft: return std::string(without_space_at(true, text));
    case TextNormalizer::Step::kStripRight: return std::string(without_space_at(false, text));
    case TextNormalizer::Step::kNmt: return cleaned_for_translation(text);
    case TextNormalizer::Step::kReplace:
    case TextNormalizer::Step::kPrepend: break;  // they have texts
  }
  return std::string(text);
}

}  // namespace

std::string TextNormalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const auto& [step, from, to, map, pattern] : steps_) {
    if (map)
      result = map->apply(result);
    else if (pattern)
      result = with_matches_replaced(result, *pattern, to);
    else if (step == Step::kReplace)
      result = replaced(std::move(result), from, to);
    else if (step == Step::kPrepend)
      result.insert(0, result.empty() ? "" : to);
    else
      result = applied(step, result);
  }
  return result;
}

std::string_view without_space_at(bool left, std::string_view text) {
  std::size_t begin = text.size(), end = 0, at = 0;
  for_each_character(text, [&](utf8proc_int32_t code, std::string_view bytes) {
    if (!is_space(code)) {
      begin = std::min(begin, at);
      end = at + bytes.size();
    }
    at += bytes.size();
  });
  return left ? text.substr(begin) : text.substr(0, end);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::vector<std::string_view> bert_words(std::string_view text) {
  std::vector<std::string_view> words;
  bool joins = false;  // what comes belongs to the last word
  for_each_character(text, [&](utf8proc_int32_t code, std::string_view bytes) {
    const bool is_word = is_punctuation(code);
    if (is_word || is_space(code)) {
      if (is_word) words.push_back(bytes);
      joins = false;
      return;
    }
    if (joins)
      words.back() = {words.back().data(), words.back().size() + bytes.size()};
    else
      words.push_back(bytes);
    joins = true;
  });
  return words;
}

}  // namespace sinter::tools
