// SPDX-License-Identifier: Apache-2.0
// Regular expressions as trees.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/grammar/pattern/characters.h"

namespace sinter::grammar {

/// An expression. Trees are as deep as kMostNesting of pattern.cpp at most.
struct Pattern {
  enum class Kind : std::uint8_t { kCharacters, kSequence, kChoice, kRepeat, kBegin, kEnd };
  static constexpr int kUnbounded = -1;

  Kind kind = Kind::kSequence;  // of nothing: the empty text
  Characters characters;
  std::vector<Pattern> parts;        // one of kRepeat
  int least = 0, most = kUnbounded;  // of kRepeat

  static Pattern of(Characters characters);
  static Pattern text(std::string_view text);
  static Pattern sequence(std::vector<Pattern> parts);
  static Pattern choice(std::vector<Pattern> parts);
  static Pattern repeat(Pattern part, int least, int most);
};

/// Which texts a pattern is about.
enum class Anchoring : std::uint8_t {
  kWhole,   // it is all of a text
  kSearch,  // it is somewhere in a text, as `pattern` of JSON Schema has it
};

/// What ECMA-262 and Python take for the same; of what they read differently (\W of a letter with
/// an accent, say) the texts that both take. Without anchors: of kSearch, any text stands in front
/// and behind where they did not. Throws Error(kUsage) for what is malformed, not regular
/// (lookarounds, back references), or too large.
Pattern parse_pattern(std::string_view text, Anchoring anchoring);

/// How many characters texts have.
struct Lengths {
  std::int64_t least, most;  // most: Pattern::kUnbounded
};
Lengths lengths_of(const Pattern& pattern);

}  // namespace sinter::grammar
