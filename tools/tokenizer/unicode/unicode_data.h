// SPDX-License-Identifier: Apache-2.0
// The tables of unicode_tables.inc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sinter::tools::unicode {

constexpr char32_t kLimit = 0x110000;

/// Numbered as in ICU.
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

/// The first of these Unicode versions that contains a character.
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

struct UnicodeRun {
  std::uint32_t first;
  std::uint16_t record;
};

/// Every `step`th character from `first` to `last` has its lower-case letter at distance `delta`.
struct LowerRun {
  char32_t first, last;
  std::int32_t delta;
  std::uint32_t step;
};

/// A character's full decomposition, as a range in decomposed().
struct Decomposition {
  char32_t code;
  std::uint16_t begin, size;
};

struct Composition {
  char32_t first, second, whole;
};

struct ScriptNames {
  const char* name;
  const char* code;
};

/// Sorted by `code`; kCompatible contains characters whose compatibility decomposition differs.
std::span<const Decomposition> canonical();
std::span<const Decomposition> compatible();
std::u32string_view decomposed();
/// Sorted by first and second.
std::span<const Composition> compositions();
std::span<const UnicodeRecord> records();
std::span<const UnicodeRun> runs();
std::span<const LowerRun> lower_runs();
std::span<const ScriptNames> scripts();

}  // namespace sinter::tools::unicode
