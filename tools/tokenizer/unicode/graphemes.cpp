// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/unicode/graphemes.h"

#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools::unicode {
namespace {

using enum GraphemeBreak;

bool is_control(GraphemeBreak kind) { return kind == kControl || kind == kCr || kind == kLf; }

/// Rules GB6 to GB8: Hangul syllables.
bool is_syllable(GraphemeBreak before, GraphemeBreak behind) {
  if (before == kL) return behind == kL || behind == kV || behind == kLv || behind == kLvt;
  if (before == kLv || before == kV) return behind == kV || behind == kT;
  return (before == kLvt || before == kT) && behind == kT;
}

}  // namespace

std::size_t grapheme_length(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  const UnicodeRecord* last = &record_of(next_character(text, at));
  int regional = last->grapheme_break == kRegional ? 1 : 0;
  bool is_picture = last->is_pictographic();  // a pictograph followed only by Extend (GB11)
  // GB9c: a consonant followed by Extend or linkers; whether there is a linker.
  bool is_conjunct = last->conjunct == Conjunct::kConsonant, has_linker = false;
  while (at < text.size()) {
    const std::size_t here = at;
    const UnicodeRecord& next = record_of(next_character(text, at));
    const GraphemeBreak before = last->grapheme_break, behind = next.grapheme_break;
    const bool joins = (before == kCr && behind == kLf) ||
                       (!is_control(before) && !is_control(behind) &&
                        (is_syllable(before, behind) || behind == kExtend || behind == kZwj ||
                         behind == kSpacingMark || before == kPrepend ||
                         (is_conjunct && has_linker && next.conjunct == Conjunct::kConsonant) ||
                         (before == kZwj && is_picture && next.is_pictographic()) ||
                         (before == kRegional && behind == kRegional && regional % 2 == 1)));
    if (!joins) return here - begin;
    regional = behind == kRegional ? regional + 1 : 0;
    is_picture = next.is_pictographic() || (is_picture && (behind == kExtend || behind == kZwj));
    if (next.conjunct == Conjunct::kConsonant) {
      is_conjunct = true;
      has_linker = false;
    } else if (next.conjunct == Conjunct::kLinker) {
      has_linker = true;
    } else if (next.conjunct != Conjunct::kExtend) {
      is_conjunct = false;
    }
    last = &next;
  }
  return at - begin;
}

}  // namespace sinter::tools::unicode
