// SPDX-License-Identifier: Apache-2.0
// Regular expressions as trees.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/grammar/pattern/characters.h"

namespace sinter::grammar {

/// A regular expression as a tree, of depth up to kMostNesting of pattern.cpp.
struct Pattern {
  enum class Kind : std::uint8_t { kCharacters, kSequence, kChoice, kRepeat, kBegin, kEnd };
  static constexpr int kUnbounded = -1;

  Kind kind = Kind::kSequence;  // without parts: the empty text
  Characters characters;
  std::vector<Pattern> parts;        // exactly one for kRepeat
  int least = 0, most = kUnbounded;  // for kRepeat

  static Pattern of(Characters characters);
  static Pattern text(std::string_view text);
  static Pattern sequence(std::vector<Pattern> parts);
  static Pattern choice(std::vector<Pattern> parts);
  static Pattern repeat(Pattern part, int least, int most);
};

/// The part of a text that a pattern must match.
enum class Anchoring : std::uint8_t {
  kWhole,   // the whole text
  kSearch,  // any substring, as `pattern` of JSON Schema
};

/// Parses the common subset of ECMA-262's and Python's syntax. Where the two differ (\W and an
/// accented letter, say), the result matches only texts that both accept. Anchors are resolved:
/// with kSearch, any text may precede and follow unless an anchor forbids it. Throws Error(kUsage)
/// for malformed, non-regular (lookarounds, back references) or too large expressions.
Pattern parse_pattern(std::string_view text, Anchoring anchoring);

/// Length of texts in characters.
struct Lengths {
  std::int64_t least, most;  // most: Pattern::kUnbounded
};
Lengths lengths_of(const Pattern& pattern);

}  // namespace sinter::grammar
