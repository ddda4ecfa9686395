// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/unicode/pattern_encoding.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tools/tokenizer/unicode/unicode.h"
#include "tools/tokenizer/unicode/unicode_data.h"

namespace sinter::tools::unicode {
namespace {

// Unicode version of the Oniguruma that Hugging Face's library uses: 16.
constexpr Age kNewest = Age::k16;

/// Whether a character is in the Oniguruma class `number` (ONIGENC_CTYPE_..); nullopt: Oniguruma's
/// own tables are right.
std::optional<bool> is_in_class(const UnicodeRecord& record, OnigCtype number) {
  if (record.age > kNewest) return std::nullopt;
  const bool is_digit = record.category == Category::kNd;
  switch (number) {
    case ONIGENC_CTYPE_ALPHA: return record.is_alphabetic();
    case ONIGENC_CTYPE_ALNUM: return record.is_alphabetic() || is_digit;
    case ONIGENC_CTYPE_DIGIT: return is_digit;
    case ONIGENC_CTYPE_LOWER: return record.is_lowercase();
    case ONIGENC_CTYPE_UPPER: return record.is_uppercase();
    case ONIGENC_CTYPE_PUNCT:  // of bracket expressions: includes symbols
      return record.is_punctuation() || record.is_in(Category::kSm, Category::kSo);
    case ONIGENC_CTYPE_WORD:
      return record.is_alphabetic() || record.is_mark() || is_digit ||
             record.category == Category::kPc;
    case ONIGENC_CTYPE_GRAPH:
    case ONIGENC_CTYPE_PRINT:
      // No newer character is a control character or white space.
      return record.age > Age::k14 ? std::optional(true) : std::nullopt;
    default: return std::nullopt;
  }
}

// Categories in the order of Category; the first letter is the group.
constexpr std::string_view kCategories[] = {
    "cn", "lu", "ll", "lt", "lm", "lo", "mn", "me", "mc", "nd", "nl", "no", "zs", "zl", "zp",
    "cc", "cf", "co", "cs", "pd", "ps", "pe", "pc", "po", "sm", "sc", "sk", "so", "pi", "pf"};
constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {
    {"letter", "l"},           {"mark", "m"},
    {"number", "n"},           {"punctuation", "p"},
    {"symbol", "s"},           {"uppercaseletter", "lu"},
    {"lowercaseletter", "ll"}, {"otherletter", "lo"},
    {"modifierletter", "lm"},  {"nonspacingmark", "mn"},
    {"spacingmark", "mc"},     {"decimalnumber", "nd"},
    {"othernumber", "no"},     {"letternumber", "nl"},
    {"othersymbol", "so"},     {"mathsymbol", "sm"},
    {"currencysymbol", "sc"},  {"otherpunctuation", "po"}};

std::string lowered(std::string_view name) {
  std::string result;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// The predicate of a property name that is a category, a group of categories or a script.
std::function<bool(const UnicodeRecord&)> meaning_of(const std::string& name) {
  std::string_view short_name = name;
  for (const auto& [known, other] : kLongNames)
    if (name == known) short_name = other;
  if (short_name.size() == 1 || short_name.size() == 2) {
    std::vector<bool> has(std::size(kCategories));
    bool any = false;
    for (std::size_t i = 0; i < std::size(kCategories); ++i) {
      has[i] = kCategories[i].starts_with(short_name);
      any = any || has[i];
    }
    if (any) return [has](const UnicodeRecord& r) { return has[std::size_t(r.category)]; };
  }
  if (name == "alphabetic" || name == "alpha")
    return [](const UnicodeRecord& r) { return r.is_alphabetic(); };
  if (name == "uppercase" || name == "upper")
    return [](const UnicodeRecord& r) { return r.is_uppercase(); };
  if (name == "lowercase" || name == "lower")
    return [](const UnicodeRecord& r) { return r.is_lowercase(); };
  for (std::size_t i = 0; i < scripts().size(); ++i)
    if (name == lowered(scripts()[i].name) || name == lowered(scripts()[i].code))
      return [i](const UnicodeRecord& r) { return r.script == i; };
  return nullptr;
}

using Ranges = std::vector<OnigCodePoint>;  // their number, then first and last of each

/// The characters for which `has(record, first)` is true; where it is nullopt, those of `base`.
template <typename Has>
Ranges ranges_of(const OnigCodePoint* base, const Has& has) {
  Ranges result = {0};
  const auto add = [&](OnigCodePoint first, OnigCodePoint last) {
    if (result.size() > 1 && first <= result.back() + 1) {
      result.back() = last;
    } else {
      result.insert(result.end(), {first, last});
      ++result[0];
    }
  };
  OnigCodePoint at = 0;  // index in base
  for (std::size_t i = 0; i < runs().size(); ++i) {
    const OnigCodePoint first = runs()[i].first;
    const OnigCodePoint last = i + 1 < runs().size() ? runs()[i + 1].first - 1 : kLimit - 1;
    if (const std::optional<bool> is_in = has(records()[runs()[i].record], first)) {
      if (*is_in) add(first, last);
      continue;
    }
    while (at < base[0] && base[2 + 2 * at] < first) ++at;
    for (OnigCodePoint other = at; other < base[0] && base[1 + 2 * other] <= last; ++other)
      add(std::max(first, base[1 + 2 * other]), std::min(last, base[2 + 2 * other]));
  }
  return result;
}

/// Ranges by class, created when a pattern first needs them; never freed.
struct Classes {
  std::mutex mutex;
  std::map<OnigCtype, std::string> names;
  std::map<OnigCtype, Ranges> ranges;
};
Classes& classes() {
  static Classes all;
  return all;
}

int find_property(OnigEncoding /*encoding*/, OnigUChar* begin, OnigUChar* end) {
  const std::string name =
      lowered({reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)});
  // The property excludes symbols, the class in bracket expressions includes them.
  static OnigUChar punctuation[] = "punctuation";
  if (name == "punct") {
    begin = punctuation;
    end = punctuation + sizeof punctuation - 1;
  }
  const int ctype = ONIG_ENCODING_UTF8->property_name_to_ctype(ONIG_ENCODING_UTF8, begin, end);
  if (ctype > static_cast<int>(ONIGENC_MAX_STD_CTYPE)) {
    const std::lock_guard lock(classes().mutex);
    classes().names.try_emplace(static_cast<OnigCtype>(ctype),
                                name == "punct" ? "punctuation" : name);
  }
  return ctype;
}

constexpr OnigCodePoint kOwnTable = 0x100;  // Oniguruma has its own table below this

int is_of_class(OnigCodePoint code, OnigCtype ctype) {
  if (code >= kOwnTable && code < kLimit && ctype <= ONIGENC_MAX_STD_CTYPE)
    if (const auto is_in = is_in_class(record_of(code), ctype)) return *is_in ? 1 : 0;
  return ONIG_ENCODING_UTF8->is_code_ctype(code, ctype);
}

int find_ranges(OnigCtype ctype, OnigCodePoint* first_wide, const OnigCodePoint* ranges[]) {
  const int status = ONIG_ENCODING_UTF8->get_ctype_code_range(ctype, first_wide, ranges);
  if (status != 0) return status;
  const std::lock_guard lock(classes().mutex);
  auto found = classes().ranges.find(ctype);
  if (found == classes().ranges.end()) {
    Ranges made;
    if (ctype <= ONIGENC_MAX_STD_CTYPE) {
      made = ranges_of(*ranges, [&](const UnicodeRecord& record, OnigCodePoint first) {
        return ctype == ONIGENC_CTYPE_WORD && first < kOwnTable ? std::nullopt
                                                                : is_in_class(record, ctype);
      });
    } else if (const auto has = meaning_of(classes().names[ctype])) {
      static const UnicodeRecord& unassigned = record_of(0x378);
      made = ranges_of(*ranges, [&](const UnicodeRecord& record, OnigCodePoint) {
        return std::optional(has(record.age > kNewest ? unassigned : record));
      });
    } else {
      return status;
    }
    found = classes().ranges.emplace(ctype, std::move(made)).first;
  }
  *ranges = found->second.data();
  return status;
}

}  // namespace

OnigEncoding pattern_encoding() {
  static OnigEncodingType encoding = [] {
    OnigEncoding base = ONIG_ENCODING_UTF8;
    onig_initialize(&base, 1);
    OnigEncodingType result = *base;
    result.property_name_to_ctype = find_property;
    result.is_code_ctype = is_of_class;
    result.get_ctype_code_range = find_ranges;
    return result;
  }();
  return &encoding;
}

}  // namespace sinter::tools::unicode
