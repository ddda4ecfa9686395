// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/pattern/characters.h"

#include <algorithm>

#include "runtime/format_error.h"

namespace sinter::grammar {
namespace {

constexpr Character kLast = 0x10FFFF, kSurrogates = 0xD800, kBehindSurrogates = 0xE000;

}  // namespace

Characters::Characters(std::vector<Range> ranges) {
  std::ranges::sort(ranges);
  const auto add = [&](Character first, Character last) {
    if (first > last) return;
    if (!ranges_.empty() && first <= ranges_.back().second + 1)
      ranges_.back().second = std::max(ranges_.back().second, last);
    else
      ranges_.emplace_back(first, last);
  };
  for (const auto& [first, last] : ranges) {
    add(first, std::min(last, kSurrogates - 1));
    add(std::max(first, kBehindSurrogates), std::min(last, kLast));
  }
}

Characters Characters::all() { return Characters({{0, kLast}}); }

bool Characters::contains(Character one) const {
  return std::ranges::any_of(
      ranges_, [&](const Range& range) { return range.first <= one && one <= range.second; });
}

Characters Characters::operator|(const Characters& other) const {
  std::vector<Range> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return {std::move(both)};
}

Characters Characters::complement() const {
  std::vector<Range> rest;
  Character next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) rest.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) rest.emplace_back(next, kLast);
  return {std::move(rest)};
}

Characters Characters::operator&(const Characters& other) const {
  return (complement() | other.complement()).complement();
}

std::vector<Character> characters_of(std::string_view text) {
  std::vector<Character> result;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) -> Character {
      return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
    };
    const Character first = byte(i);
    const std::size_t length = first < 0x80             ? 1
                               : (first & 0xE0) == 0xC0 ? 2
                               : (first & 0xF0) == 0xE0 ? 3
                               : (first & 0xF8) == 0xF0 ? 4
                                                        : 0;
    Character value = length == 1 ? first : first & (0xFFU >> (length + 1));
    bool is_right = length > 0;
    for (std::size_t k = 1; k < length; ++k) {
      is_right = is_right && (byte(i + k) & 0xC0) == 0x80;
      value = value << 6 | (byte(i + k) & 0x3F);
    }
    constexpr Character kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (!is_right || value < kLeast[length] || value > kLast ||
        (value >= kSurrogates && value < kBehindSurrogates))
      throw usage_error("it is no UTF-8");
    result.push_back(value);
    i += length;
  }
  return result;
}

}  // namespace sinter::grammar
