// SPDX-License-Identifier: Apache-2.0
// Sets of Unicode characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sinter::grammar {

using Character = std::uint32_t;

/// A set of characters as sorted ranges that do not touch; without surrogates, which UTF-8
/// excludes.
class Characters {
 public:
  using Range = std::pair<Character, Character>;  // both ends inclusive

  Characters() = default;
  Characters(std::vector<Range> ranges);
  static Characters of(Character one) { return Characters({{one, one}}); }
  static Characters all();

  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(Character one) const;
  Characters operator|(const Characters& other) const;
  Characters operator&(const Characters& other) const;
  Characters complement() const;
  bool operator==(const Characters&) const = default;

 private:
  std::vector<Range> ranges_;
};

/// Decodes UTF-8. Throws Error(kUsage) for invalid UTF-8.
std::vector<Character> characters_of(std::string_view text);

}  // namespace sinter::grammar
