// What Unicode says of characters, and UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sinter::tools::unicode {

constexpr char32_t kLimit = 0x110000;

/// As ICU numbers them.
enum class Category : std::uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMe,
  kMc,
  kNd,
  kNl,
  kNo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCo,
  kCs,
  kPd,
  kPs,
  kPe,
  kPc,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kPi,
  kPf
};

/// The first of these versions of Unicode that has a character.
enum class Age : std::uint8_t { k8, k9, k12, k14, k16, k17, kNever };

enum class GraphemeBreak : std::uint8_t {
  kOther,
  kControl,
  kCr,
  kExtend,
  kL,
  kLf,
  kLv,
  kLvt,
  kT,
  kV,
  kSpacingMark,
  kPrepend,
  kRegional,
  kUnused13,
  kUnused14,
  kUnused15,
  kUnused16,
  kZwj
};

enum class Conjunct : std::uint8_t { kNone, kConsonant, kExtend, kLinker };

struct UnicodeRecord {
  constexpr UnicodeRecord(int category_, int age_, int class_, int grapheme, int conjunct_,
                          int flags_, int script_)
      : category(static_cast<Category>(category_)),
        age(static_cast<Age>(age_)),
        combining_class(static_cast<std::uint8_t>(class_)),
        grapheme_break(static_cast<GraphemeBreak>(grapheme)),
        conjunct(static_cast<Conjunct>(conjunct_)),
        flags(static_cast<std::uint8_t>(flags_)),
        script(static_cast<std::uint8_t>(script_)) {}

  Category category;
  Age age;
  std::uint8_t combining_class;
  GraphemeBreak grapheme_break;
  Conjunct conjunct;
  std::uint8_t flags;
  std::uint8_t script;

  bool is_alphabetic() const { return (flags & 1U) != 0; }
  bool is_pictographic() const { return (flags & 2U) != 0; }
  bool is_uppercase() const { return (flags & 4U) != 0; }
  bool is_lowercase() const { return (flags & 8U) != 0; }
  bool is_in(Category first, Category last) const { return category >= first && category <= last; }
  bool is_mark() const { return is_in(Category::kMn, Category::kMc); }
  bool is_number() const { return is_in(Category::kNd, Category::kNo); }
  bool is_punctuation() const {
    return is_in(Category::kPd, Category::kPo) || is_in(Category::kPi, Category::kPf);
  }
};

/// `code` below kLimit.
const UnicodeRecord& record_of(char32_t code);

/// The property White_Space.
bool is_white_space(char32_t code);
/// `\w` as Unicode's regular expressions have it: letters, marks, digits, joints. As of Unicode 16.
bool is_word(char32_t code);
/// The small letter; U+0130, the one that has two characters, stays.
char32_t lowercase(char32_t code);

struct ScriptNames {
  const char* name;
  const char* code;
};
std::span<const ScriptNames> scripts();

/// Bytes of the character that begins with `first`, which is no continuation.
inline std::size_t length_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The character at `at`, which goes behind it. `text` is UTF-8; of what is not, some character.
inline char32_t next_character(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return text[at++];
  const std::size_t length = length_of(text[at]), left = text.size() - at;
  char32_t code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length && i < left; ++i)
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  at += length < left ? length : left;
  return code < kLimit ? code : 0xFFFD;
}
/// The character that ends at `end`, which goes in front of it; `end` is not 0.
char32_t previous_character(std::string_view text, std::size_t& end);
void append(std::string& text, char32_t code);
bool is_ascii(std::string_view text);

/// `text` without white space at its beginning (`left`) or its end.
std::string_view without_space_at(bool left, std::string_view text);

}  // namespace sinter::tools::unicode
