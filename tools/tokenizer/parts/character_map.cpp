// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/parts/character_map.h"

#include <algorithm>
#include <array>

#include "runtime/engine/utf8.h"
#include "runtime/format_error.h"
#include "tools/tokenizer/unicode/graphemes.h"
#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {
namespace {

std::string bytes_of_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos)
      throw usage_error("tokenizer: precompiled_charsmap is no base64");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

/// A unit of darts-clone's double array.
struct Unit {
  std::uint32_t bits;
  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  std::uint32_t value() const { return bits & 0x7fffffffU; }
  std::uint32_t label() const { return bits & 0x800000ffU; }
  std::uint32_t offset() const { return bits >> 10 << ((bits & 1U << 9) >> 6); }
};

}  // namespace

CharacterMap::CharacterMap(std::string_view base64) {
  const std::string bytes = bytes_of_base64(base64);
  const auto number_at = [&](std::size_t at) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < 4; ++i)
      number |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (i * 8);
    return number;
  };
  const std::size_t size = bytes.size() < 4 ? 0 : number_at(0);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4)
    throw usage_error("tokenizer: precompiled_charsmap has {} bytes and an array of {}",
                      bytes.size(), size);
  for (std::size_t at = 4; at < 4 + size; at += 4) units_.push_back(number_at(at));
  texts_ = bytes.substr(4 + size);
  if (engine::repaired_utf8(texts_) != texts_)
    throw usage_error("tokenizer: the texts of precompiled_charsmap are not UTF-8");
}

std::optional<std::string_view> CharacterMap::find(std::string_view chunk) const {
  std::size_t at = Unit{units_[0]}.offset();
  for (const char c : chunk) {
    const auto label = static_cast<unsigned char>(c);
    if (label == 0) break;
    at ^= label;
    if (at >= units_.size() || Unit{units_[at]}.label() != label) break;
    const Unit unit{units_[at]};
    at ^= unit.offset();
    if (!unit.has_leaf()) continue;
    if (at >= units_.size()) break;
    const std::size_t place = Unit{units_[at]}.value();
    if (place > texts_.size()) break;
    const std::string_view rest = std::string_view(texts_).substr(place);
    if (!rest.empty() && (rest.front() & 0xC0) == 0x80) break;  // within a character
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

void CharacterMap::apply(std::string_view text, Rewriter& writer) const {
  constexpr std::size_t kMostOfGrapheme = 5;
  bool has_written = false;
  std::size_t size = 0;
  const auto count = [](std::string_view part) {
    return std::ranges::count_if(part, [](char c) { return (c & 0xC0) != 0x80; });
  };
  // Replaces `characters` of the text by `mapped`.
  const auto map = [&](std::ptrdiff_t characters, std::string_view mapped) {
    require_text_size(size += mapped.size());
    std::ptrdiff_t written = 0;
    for (std::size_t at = 0; at < mapped.size(); ++written) {
      const std::size_t begin = at;
      unicode::next_character(mapped, at);
      const std::string_view character = mapped.substr(begin, at - begin);
      if (written < characters)
        writer.replace(character);
      else
        writer.insert(character);
      has_written = true;
    }
    // The library ignores characters dropped before the first output.
    for (; written < characters && has_written; ++written) writer.drop();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = unicode::grapheme_length(text, at);
    const std::string_view grapheme = text.substr(at, length);
    at += length;
    if (length <= kMostOfGrapheme)
      if (const auto mapped = find(grapheme)) {
        map(count(grapheme), *mapped);
        continue;
      }
    for (std::size_t i = 0; i < length;) {
      const std::size_t begin = i;
      unicode::next_character(grapheme, i);
      const std::string_view character = grapheme.substr(begin, i - begin);
      if (const auto mapped = find(character)) {
        map(1, *mapped);
      } else {
        writer.replace(character);
        has_written = true;
      }
    }
  }
}

}  // namespace sinter::tools
