// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/pattern/pattern.h"

#include <algorithm>
#include <optional>

#include "runtime/format_error.h"

namespace sinter::grammar {
namespace {

using Kind = Pattern::Kind;

constexpr int kMostNesting = 48;
constexpr int kMostRepeats = 100'000;
constexpr std::size_t kMostCharacters = std::size_t{64} << 10;

// The characters that an escape matches in both dialects, and those it matches in at least one. In
// ECMA-262 escapes match ASCII (and Unicode white space), in Python all of Unicode.
struct Escape {
  Characters certain, possible;
};

Escape digits() {
  // A superset: these ranges contain all other digits, and letters.
  return {Characters({{'0', '9'}}),
          Characters({{'0', '9'}, {0x660, 0x2FFF}, {0xA620, 0xABFF}, {0xD7A4, 0x10FFFF}})};
}
Escape words() {
  return {Characters({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}),
          Characters({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0x80, 0x10FFFF}})};
}
Escape spaces() {
  return {Characters({{'\t', '\r'}, {' ', ' '}}), Characters({{'\t', '\r'},
                                                              {0x1C, ' '},
                                                              {0x85, 0x85},
                                                              {0xA0, 0xA0},
                                                              {0x1680, 0x1680},
                                                              {0x180E, 0x180E},
                                                              {0x2000, 0x200F},
                                                              {0x2028, 0x202F},
                                                              {0x205F, 0x205F},
                                                              {0x3000, 0x3000},
                                                              {0xFEFF, 0xFEFF}})};
}
Escape others(const Escape& escape) {
  return {escape.possible.complement(), escape.certain.complement()};
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(characters_of(text)) {}

  Pattern parse() {
    Pattern result = choice(0);
    if (!at_end()) fail("has a ')' too many");
    return result;
  }

 private:
  template <typename... Values>
  [[noreturn]] void fail(fmt::format_string<Values...> format, Values&&... values) const {
    throw usage_error("the expression {} (character {})",
                      fmt::format(format, std::forward<Values>(values)...), at_);
  }

  bool at_end() const { return at_ == text_.size(); }
  Character peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0;
  }
  bool take(Character wanted) {
    if (at_end() || peek() != wanted) return false;
    ++at_;
    return true;
  }
  Character next() {
    if (at_end()) fail("ends too early");
    return text_[at_++];
  }

  Pattern choice(int depth) {
    if (depth > kMostNesting) fail("has more than {} parentheses in each other", kMostNesting);
    std::vector<Pattern> alternatives;
    do alternatives.push_back(sequence(depth));
    while (take('|'));
    return Pattern::choice(std::move(alternatives));
  }

  Pattern sequence(int depth) {
    std::vector<Pattern> parts;
    while (!at_end() && peek() != '|' && peek() != ')') {
      Pattern part = atom(depth);
      const bool is_anchor = part.kind == Kind::kBegin || part.kind == Kind::kEnd;
      if (auto repeats = quantifier()) {
        if (is_anchor) fail("repeats an anchor");
        part = Pattern::repeat(std::move(part), repeats->first, repeats->second);
        if (peek() == '+' || quantifier()) fail("repeats what is repeated: put it in parentheses");
      }
      parts.push_back(std::move(part));
    }
    return Pattern::sequence(std::move(parts));
  }

  std::optional<std::pair<int, int>> quantifier() {
    std::optional<std::pair<int, int>> result;
    if (take('*')) {
      result = {0, Pattern::kUnbounded};
    } else if (take('+')) {
      result = {1, Pattern::kUnbounded};
    } else if (take('?')) {
      result = {0, 1};
    } else if (peek() == '{' && !at_end()) {
      result = bounds();
    }
    if (result) take('?');  // lazy matching changes the match found, not the texts accepted
    return result;
  }

  /// {n}, {n,}, {n,m}; nullopt if the brace is a literal character.
  std::optional<std::pair<int, int>> bounds() {
    const std::size_t begin = at_++;
    const auto number = [&]() -> std::optional<std::int64_t> {
      if (!is_digit(peek())) return std::nullopt;
      std::int64_t value = 0;
      while (is_digit(peek())) value = std::min<std::int64_t>(value * 10 + (next() - '0'), 1 << 30);
      return value;
    };
    const auto least = number();
    std::optional<std::int64_t> most = least;
    if (least && take(',')) most = number();
    const bool is_open = least && !most;
    if (!least || !take('}')) {
      at_ = begin;
      return std::nullopt;
    }
    if (std::max(*least, most.value_or(0)) > kMostRepeats)
      fail("repeats too often: the number is too large, {} is the most", kMostRepeats);
    if (most && *least > *most) fail("repeats with a lower bound above the upper one");
    return std::pair(static_cast<int>(*least),
                     is_open ? Pattern::kUnbounded : static_cast<int>(*most));
  }

  Pattern atom(int depth) {
    const Character c = next();
    switch (c) {
      case '^': return {.kind = Kind::kBegin};
      case '$': return {.kind = Kind::kEnd};
      case '.':
        return Pattern::of(Characters({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement());
      case '(': return group(depth);
      case '[': return Pattern::of(set());
      case '\\': return Pattern::of(escape(false).certain);
      case '*':
      case '+':
      case '?': fail("repeats nothing with '{}'", static_cast<char>(c));
      default: return Pattern::of(Characters::of(c));
    }
  }

  Pattern group(int depth) {
    if (take('?')) {
      if (take('=') || take('!')) fail("looks ahead: a lookahead is not supported");
      if (take('<')) {
        if (peek() == '=' || peek() == '!') fail("looks behind: a lookbehind is not supported");
        name();
      } else if (take('P')) {
        if (!take('<')) fail("has a group '(?P' of a kind that is not supported");
        name();
      } else if (!take(':')) {
        fail("has a group '(?' of a kind that is not supported");
      }
    }
    Pattern inner = choice(depth + 1);
    if (!take(')')) fail("has an open parenthesis");
    return inner;
  }

  void name() {
    while (!at_end() && peek() != '>') ++at_;
    if (!take('>')) fail("has a group whose name does not end");
  }

  Characters set() {
    const bool is_negated = take('^');
    Characters certain, possible;
    bool is_empty = true;
    while (!take(']')) {
      if (at_end()) fail("has a '[' without ']'");
      is_empty = false;
      const std::size_t begin = at_;
      const Escape first = member();
      const auto one = single(first);
      if (peek() == '-' && at_ + 1 < text_.size() && peek(1) != ']') {
        ++at_;
        const auto last = single(member());
        if (!one || !last) fail("has a range whose ends are no characters");
        if (*one > *last) {
          at_ = begin;
          fail("has a range whose lower bound is above the upper one");
        }
        const Characters range({{*one, *last}});
        certain = certain | range;
        possible = possible | range;
        continue;
      }
      certain = certain | first.certain;
      possible = possible | first.possible;
    }
    // The dialects read "[]a]" differently.
    if (is_empty) fail("has an empty '[]'");
    return is_negated ? possible.complement() : certain;
  }

  Escape member() {
    const Character c = next();
    if (c == '\\') return escape(true);
    return {Characters::of(c), Characters::of(c)};
  }

  static std::optional<Character> single(const Escape& escape) {
    const auto& ranges = escape.certain.ranges();
    if (ranges.size() != 1 || ranges[0].first != ranges[0].second) return std::nullopt;
    return ranges[0].first;
  }

  static bool is_digit(Character c) { return c >= '0' && c <= '9'; }

  Escape escape(bool in_set) {
    const auto one = [](Character c) { return Escape{Characters::of(c), Characters::of(c)}; };
    const Character c = next();
    switch (c) {
      case 'd': return digits();
      case 'D': return others(digits());
      case 'w': return words();
      case 'W': return others(words());
      case 's': return spaces();
      case 'S': return others(spaces());
      case 't': return one('\t');
      case 'n': return one('\n');
      case 'r': return one('\r');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case 'x': return one(hexadecimal(2));
      case 'u': return one(unit());
      case '0':
        if (!is_digit(peek())) return one(0);
        break;
      case 'b':
        if (in_set) return one('\b');
        fail("asks for a word's boundary (\\b), which is not supported");
      case 'B': fail("asks for no word's boundary (\\B), which is not supported");
      case 'k': fail("has a back reference, which is not supported: Backreference");
      case 'p':
      case 'P': fail("has a property of Unicode (\\p), which is not supported: name ranges");
      default: break;
    }
    if (is_digit(c)) fail("has a back reference, which is not supported: Backreference");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
      fail("has an escape that is not known: '\\{}'", static_cast<char>(c));
    return one(c);
  }

  Character hexadecimal(int count) {
    Character value = 0;
    for (int i = 0; i < count; ++i) {
      const Character c = next();
      const int digit = is_digit(c)            ? static_cast<int>(c - '0')
                        : c >= 'a' && c <= 'f' ? static_cast<int>(c - 'a' + 10)
                        : c >= 'A' && c <= 'F' ? static_cast<int>(c - 'A' + 10)
                                               : -1;
      if (digit < 0) fail("has an escape that is no hexadecimal number");
      value = value * 16 + static_cast<Character>(digit);
    }
    return value;
  }

  /// \u and four hexadecimal digits; a surrogate pair is one character.
  Character unit() {
    const Character high = hexadecimal(4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take('\\') || !take('u')) fail("has half of a surrogate pair");
    const Character low = hexadecimal(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("has half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  std::vector<Character> text_;
  std::size_t at_ = 0;
};

bool has_anchor(const Pattern& pattern) {
  return pattern.kind == Kind::kBegin || pattern.kind == Kind::kEnd ||
         std::ranges::any_of(pattern.parts, has_anchor);
}

/// Replaces anchors: `around` matches the text before and after a search's match.
class Anchors {
 public:
  explicit Anchors(Anchoring anchoring) : is_search_(anchoring == Anchoring::kSearch) {}

  /// `is_first` and `is_last`: `pattern` begins, and ends, the whole expression.
  Pattern without(Pattern pattern, bool is_first, bool is_last) const {
    switch (pattern.kind) {
      case Kind::kBegin:
        if (!is_first) fail('^');
        return with_rest({}, false, is_last);
      case Kind::kEnd:
        if (!is_last) fail('$');
        return with_rest({}, is_first, false);
      case Kind::kChoice:
        for (Pattern& part : pattern.parts) part = without(std::move(part), is_first, is_last);
        return pattern;
      case Kind::kSequence:
        if (pattern.parts.empty()) break;
        for (std::size_t i = 0; i < pattern.parts.size(); ++i)
          pattern.parts[i] = without(std::move(pattern.parts[i]), is_first && i == 0,
                                     is_last && i + 1 == pattern.parts.size());
        return pattern;
      case Kind::kRepeat:
        if (has_anchor(pattern)) fail('^');
        break;
      case Kind::kCharacters: break;
    }
    return with_rest(std::move(pattern), is_first, is_last);
  }

 private:
  [[noreturn]] static void fail(char anchor) {
    throw usage_error(
        "the expression has a '{}' within: anchors are supported at its ends, and those of its "
        "alternatives",
        anchor);
  }
  Pattern with_rest(Pattern pattern, bool in_front, bool behind) const {
    if (!is_search_ || (!in_front && !behind)) return pattern;
    const auto any = [] { return Pattern::repeat(Pattern::of(Characters::all()), 0, -1); };
    std::vector<Pattern> parts;
    if (in_front) parts.push_back(any());
    parts.push_back(std::move(pattern));
    if (behind) parts.push_back(any());
    return Pattern::sequence(std::move(parts));
  }

  bool is_search_;
};

}  // namespace

Pattern Pattern::of(Characters characters) {
  return {.kind = Kind::kCharacters, .characters = std::move(characters)};
}

Pattern Pattern::text(std::string_view text) {
  std::vector<Pattern> parts;
  for (const Character one : characters_of(text)) parts.push_back(of(Characters::of(one)));
  return sequence(std::move(parts));
}

Pattern Pattern::sequence(std::vector<Pattern> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return {.kind = Kind::kSequence, .parts = std::move(parts)};
}

Pattern Pattern::choice(std::vector<Pattern> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return {.kind = Kind::kChoice, .parts = std::move(parts)};
}

Pattern Pattern::repeat(Pattern part, int least, int most) {
  Pattern result{.kind = Kind::kRepeat, .least = least, .most = most};
  result.parts.push_back(std::move(part));
  return result;
}

Pattern parse_pattern(std::string_view text, Anchoring anchoring) {
  if (text.size() > kMostCharacters)
    throw usage_error("the expression has {} bytes: {} at most", text.size(), kMostCharacters);
  return Anchors(anchoring).without(Parser(text).parse(), true, true);
}

Lengths lengths_of(const Pattern& pattern) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  const auto bounded = [&](std::int64_t value) { return std::min(value, kLargest); };
  switch (pattern.kind) {
    case Kind::kCharacters: return {1, 1};
    case Kind::kBegin:
    case Kind::kEnd: return {0, 0};
    case Kind::kSequence: {
      Lengths sum = {0, 0};
      for (const Pattern& part : pattern.parts) {
        const Lengths one = lengths_of(part);
        sum.least = bounded(sum.least + one.least);
        sum.most = sum.most < 0 || one.most < 0 ? -1 : bounded(sum.most + one.most);
      }
      return sum;
    }
    case Kind::kChoice: {
      Lengths all = lengths_of(pattern.parts.front());
      for (const Pattern& part : pattern.parts) {
        const Lengths one = lengths_of(part);
        all.least = std::min(all.least, one.least);
        all.most = all.most < 0 || one.most < 0 ? -1 : std::max(all.most, one.most);
      }
      return all;
    }
    case Kind::kRepeat: {
      const Lengths one = lengths_of(pattern.parts.front());
      const bool is_bounded = (pattern.most >= 0 && one.most >= 0) || one.most == 0;
      return {bounded(one.least * pattern.least),
              is_bounded ? bounded(one.most * std::max(pattern.most, 0)) : -1};
    }
  }
  return {0, -1};
}

}  // namespace sinter::grammar
