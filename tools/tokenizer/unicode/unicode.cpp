// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/unicode/unicode.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/engine/utf8.h"

namespace sinter::tools::unicode {
namespace {

/// Record indices in pages of 256 characters; characters of a long run share a page.
class Pages {
 public:
  Pages() {
    std::size_t run = 0;
    for (char32_t page = 0; page < kPages; ++page) {
      const char32_t first = page * kPage;
      while (run + 1 < runs().size() && runs()[run + 1].first <= first) ++run;
      const bool is_uniform = run + 1 == runs().size() || runs()[run + 1].first >= first + kPage;
      auto& shared = uniform_[runs()[run].record];
      if (is_uniform && shared != 0) {
        pages_[page] = shared - 1;
        continue;
      }
      pages_[page] = static_cast<std::uint16_t>(numbers_.size() / kPage);
      if (is_uniform) shared = static_cast<std::uint16_t>(pages_[page] + 1);
      std::size_t at = run;
      for (char32_t code = first; code < first + kPage; ++code) {
        while (at + 1 < runs().size() && runs()[at + 1].first <= code) ++at;
        numbers_.push_back(runs()[at].record);
      }
    }
  }
  const UnicodeRecord& operator[](char32_t code) const {
    return records()[numbers_[std::size_t{pages_[code / kPage]} * kPage + code % kPage]];
  }

 private:
  static constexpr char32_t kPage = 256, kPages = kLimit / kPage;
  std::array<std::uint16_t, kPages> pages_;
  std::vector<std::uint16_t> uniform_ = std::vector<std::uint16_t>(records().size());
  std::vector<std::uint16_t> numbers_;
};

}  // namespace

const UnicodeRecord& record_of(char32_t code) {
  static const Pages pages;
  return pages[code];
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word(char32_t code) {
  constexpr char32_t kNonJoiner = 0x200C, kJoiner = 0x200D;
  const UnicodeRecord& record = record_of(code);
  return (record.age <= Age::k16 &&
          (record.is_alphabetic() || record.is_mark() || record.category == Category::kNd ||
           record.category == Category::kPc)) ||
         code == kNonJoiner || code == kJoiner;
}

char32_t lowercase(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
  const auto run = std::ranges::lower_bound(lower_runs(), code, {}, &LowerRun::last);
  if (run == lower_runs().end() || code < run->first || (code - run->first) % run->step != 0)
    return code;
  return static_cast<char32_t>(static_cast<std::int32_t>(code) + run->delta);
}

char32_t previous_character(std::string_view text, std::size_t& end) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80)
    --begin;
  end = begin;
  std::size_t at = begin;
  return next_character(text, at);
}

void append(std::string& text, char32_t code) {
  if (code < 0x10000) return engine::append_utf8(text, code);
  text += static_cast<char>(0xF0U | code >> 18);
  text += static_cast<char>(0x80U | (code >> 12 & 0x3FU));
  text += static_cast<char>(0x80U | (code >> 6 & 0x3FU));
  text += static_cast<char>(0x80U | (code & 0x3FU));
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string_view without_space_at(bool left, std::string_view text) {
  std::size_t begin = 0, end = text.size();
  if (left) {
    for (std::size_t at = 0; at < text.size() && is_white_space(next_character(text, at));)
      begin = at;
    return text.substr(begin);
  }
  for (std::size_t at = end; at > 0 && is_white_space(previous_character(text, at));) end = at;
  return text.substr(0, end);
}

}  // namespace sinter::tools::unicode
