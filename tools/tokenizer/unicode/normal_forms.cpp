// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/unicode/normal_forms.h"

#include <algorithm>
#include <vector>

#include "tools/tokenizer/unicode/unicode.h"
#include "tools/tokenizer/unicode/unicode_data.h"

namespace sinter::tools::unicode {
namespace {

// Hangul syllables are computed: section 3.12 of the Unicode standard.
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;

struct Decomposed {
  char32_t code;
  int class_, sources;
};

int class_of(char32_t code) {
  const UnicodeRecord& record = record_of(code);
  return record.age <= Age::k9 ? record.combining_class : 0;
}

std::u32string_view find(std::span<const Decomposition> table, char32_t code) {
  const auto found = std::ranges::lower_bound(table, code, {}, &Decomposition::code);
  if (found == table.end() || found->code != code || record_of(code).age > Age::k12) return {};
  return decomposed().substr(found->begin, found->size);
}

void decompose(char32_t code, bool is_compatible, std::vector<Decomposed>& result) {
  constexpr char32_t kFirst = 0xA0;  // the first that any form decomposes
  if (code < kFirst) return result.push_back({code, 0, 1});
  if (code >= kSyllable && code < kSyllable + kSyllables) {
    const char32_t index = code - kSyllable, tail = index % kTails;
    result.push_back({kLead + index / (kVowels * kTails), 0, 1});
    result.push_back({kVowel + index / kTails % kVowels, 0, 0});
    if (tail != 0) result.push_back({kTail + tail, 0, 0});
    return;
  }
  std::u32string_view found;
  if (is_compatible) found = find(compatible(), code);
  if (found.empty()) found = find(canonical(), code);
  if (found.empty()) return result.push_back({code, class_of(code), 1});
  int sources = 1;
  for (const char32_t part : found) {
    result.push_back({part, class_of(part), sources});
    sources = 0;
  }
}

/// The composition of two characters; 0: none.
char32_t composed(char32_t first, char32_t second) {
  if (first >= kLead && first < kLead + kLeads && second >= kVowel && second < kVowel + kVowels)
    return kSyllable + ((first - kLead) * kVowels + second - kVowel) * kTails;
  if (first >= kSyllable && first < kSyllable + kSyllables && (first - kSyllable) % kTails == 0 &&
      second > kTail && second < kTail + kTails)
    return first + second - kTail;
  const auto key = [](const Composition& pair) { return std::pair(pair.first, pair.second); };
  const auto found = std::ranges::lower_bound(compositions(), std::pair(first, second), {}, key);
  if (found == compositions().end() || key(*found) != std::pair(first, second)) return 0;
  return record_of(found->whole).age <= Age::k12 ? found->whole : 0;
}

/// Composes `run`, whose marks are in canonical order, in place.
void compose(std::vector<Decomposed>& run) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t starter = kNone, size = 0;
  int last_class = -1;  // combining class of the last character since the starter
  for (const Decomposed& each : run) {
    if (starter != kNone && last_class < each.class_) {
      if (const char32_t whole = composed(run[starter].code, each.code)) {
        run[starter].code = whole;
        run[starter].sources += each.sources;
        continue;
      }
    }
    if (each.class_ == 0) {
      starter = size;
      last_class = -1;
    } else {
      last_class = each.class_;
    }
    run[size++] = each;
  }
  run.resize(size);
}

}  // namespace

void normalize(std::string_view text, NormalForm form,
               const std::function<void(char32_t, int)>& put) {
  const bool is_compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  std::vector<Decomposed> run;
  const auto flush = [&] {
    if (composes) compose(run);
    for (const Decomposed& each : run) put(each.code, each.sources);
    run.clear();
  };
  std::size_t marks = 0;  // start of the marks in `run` that are not yet in canonical order
  const auto order = [&] {
    std::ranges::stable_sort(run.begin() + static_cast<std::ptrdiff_t>(marks), run.end(), {},
                             &Decomposed::class_);
    marks = run.size();
  };
  std::vector<Decomposed> parts;
  for (std::size_t at = 0; at < text.size();) {
    // No character composes with a following ASCII character.
    const bool is_ascii_character = static_cast<unsigned char>(text[at]) < 0x80;
    if (is_ascii_character && !run.empty()) {
      order();
      flush();
      marks = 0;
    }
    parts.clear();
    decompose(next_character(text, at), is_compatible, parts);
    for (const Decomposed& part : parts) {
      if (part.class_ == 0) {
        order();
        run.push_back(part);
        marks = run.size();
      } else {
        run.push_back(part);
      }
    }
  }
  order();
  flush();
}

}  // namespace sinter::tools::unicode
