// The tables of unicode_tables.inc.
#pragma once

#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools::unicode {

struct UnicodeRun {
  std::uint32_t first;
  std::uint16_t record;
};

/// Every `step`th character from `first` to `last` has a small letter `delta` behind it.
struct LowerRun {
  char32_t first, last;
  std::int32_t delta;
  std::uint32_t step;
};

/// What a character becomes, all the way down, in decomposed().
struct Decomposition {
  char32_t code;
  std::uint16_t begin, size;
};

struct Composition {
  char32_t first, second, whole;
};

/// Sorted by `code`; kCompatible has those whose compatible decomposition differs.
std::span<const Decomposition> canonical();
std::span<const Decomposition> compatible();
std::u32string_view decomposed();
/// Sorted by first and second.
std::span<const Composition> compositions();
std::span<const UnicodeRecord> records();
std::span<const UnicodeRun> runs();

}  // namespace sinter::tools::unicode
