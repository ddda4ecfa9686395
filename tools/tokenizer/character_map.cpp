#include "tools/tokenizer/character_map.h"

#include <algorithm>
#include <array>

#include <utf8proc.h>

#include "runtime/format_error.h"

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

/// A unit of a double array as darts-clone packs it.
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
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

std::string CharacterMap::apply(std::string_view text) const {
  constexpr std::size_t kMostOfGrapheme = 5;
  std::string result;
  std::string_view grapheme;
  const auto flush = [&] {
    if (grapheme.size() <= kMostOfGrapheme)
      if (const auto mapped = find(grapheme)) {
        result += *mapped;
        return;
      }
    for (std::size_t at = 0; at < grapheme.size();) {
      utf8proc_int32_t code = 0;
      const auto length = static_cast<std::size_t>(std::max<utf8proc_ssize_t>(
          1, utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(grapheme.data() + at),
                              static_cast<utf8proc_ssize_t>(grapheme.size() - at), &code)));
      const std::string_view character = grapheme.substr(at, length);
      result += find(character).value_or(character);
      at += length;
    }
  };
  utf8proc_int32_t state = 0, last = 0;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const auto length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                         static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (length <= 0) break;  // no UTF-8: callers have looked
    const auto size = static_cast<std::size_t>(length);
    if (grapheme.empty() || utf8proc_grapheme_break_stateful(last, code, &state)) {
      if (!grapheme.empty()) flush();
      grapheme = text.substr(at, size);
    } else {
      grapheme = {grapheme.data(), grapheme.size() + size};
    }
    last = code;
    at += size;
  }
  if (!grapheme.empty()) flush();
  return result;
}

}  // namespace sinter::tools
