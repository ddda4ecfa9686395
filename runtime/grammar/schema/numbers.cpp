// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema/numbers.h"

#include <algorithm>
#include <cmath>

#include "runtime/format_error.h"

namespace sinter::grammar {
namespace {

constexpr int kDigits = 15;  // decimal digits that a double preserves

Pattern digit(char first, char last) {
  return Pattern::of(Characters({{static_cast<Character>(first), static_cast<Character>(last)}}));
}
Pattern digits(int least, int most) { return Pattern::repeat(digit('0', '9'), least, most); }
Pattern sequence_of(std::initializer_list<Pattern> parts) { return Pattern::sequence(parts); }
Pattern choice_of(std::initializer_list<Pattern> parts) { return Pattern::choice(parts); }
Pattern impossible() { return Pattern::of({}); }
Pattern any_fraction() {
  return Pattern::repeat(sequence_of({Pattern::text("."), digits(1, Pattern::kUnbounded)}), 0, 1);
}

/// For an equal integer part: fractions of at least `fraction`; fraction_to: of at most.
Pattern fraction_from(const std::string& fraction, bool is_exclusive) {
  const Pattern more = sequence_of({digits(0, -1), digit('1', '9'), digits(0, -1)});
  if (fraction.empty())
    return is_exclusive ? sequence_of({Pattern::text("."), more}) : any_fraction();
  std::vector<Pattern> ways;
  for (std::size_t j = 0; j < fraction.size(); ++j)
    if (fraction[j] < '9')
      ways.push_back(sequence_of({Pattern::text(fraction.substr(0, j)),
                                  digit(static_cast<char>(fraction[j] + 1), '9'), digits(0, -1)}));
  ways.push_back(sequence_of({Pattern::text(fraction), is_exclusive ? more : digits(0, -1)}));
  return sequence_of({Pattern::text("."), Pattern::choice(std::move(ways))});
}

Pattern fraction_to(const std::string& fraction, bool is_exclusive) {
  const Pattern zeros = Pattern::repeat(digit('0', '0'), 1, -1);
  if (fraction.empty())
    return is_exclusive ? impossible()
                        : Pattern::repeat(sequence_of({Pattern::text("."), zeros}), 0, 1);
  std::vector<Pattern> ways;
  for (std::size_t j = 0; j < fraction.size(); ++j) {
    if (fraction[j] > '0')
      ways.push_back(sequence_of({Pattern::text(fraction.substr(0, j)),
                                  digit('0', static_cast<char>(fraction[j] - 1)), digits(0, -1)}));
    if (j > 0) ways.push_back(Pattern::text(fraction.substr(0, j)));  // the rest is not zero
  }
  if (!is_exclusive)
    ways.push_back(sequence_of(
        {Pattern::text(fraction), digits(0, 0), Pattern::repeat(digit('0', '0'), 0, -1)}));
  return Pattern::repeat(sequence_of({Pattern::text("."), Pattern::choice(std::move(ways))}), 0, 1);
}

/// Magnitudes of at least `bound`; `to`: of at most.
Pattern from(const Decimal& bound, bool is_exclusive) {
  const int size = static_cast<int>(bound.whole.size());
  std::vector<Pattern> ways;
  if (bound.whole == "0") {
    ways.push_back(sequence_of({digit('1', '9'), digits(0, -1), any_fraction()}));
  } else {
    ways.push_back(sequence_of({digit('1', '9'), digits(size, -1), any_fraction()}));
    for (int j = 0; j < size; ++j)
      if (const char d = bound.whole[static_cast<std::size_t>(j)]; d < '9')
        ways.push_back(
            sequence_of({Pattern::text(bound.whole.substr(0, static_cast<std::size_t>(j))),
                         digit(static_cast<char>(d + 1), '9'), digits(size - j - 1, size - j - 1),
                         any_fraction()}));
  }
  ways.push_back(
      sequence_of({Pattern::text(bound.whole), fraction_from(bound.fraction, is_exclusive)}));
  return Pattern::choice(std::move(ways));
}

Pattern to(const Decimal& bound, bool is_exclusive) {
  const int size = static_cast<int>(bound.whole.size());
  std::vector<Pattern> ways;
  if (size > 1) {
    ways.push_back(sequence_of({Pattern::text("0"), any_fraction()}));
    ways.push_back(sequence_of({digit('1', '9'), digits(0, size - 2), any_fraction()}));
  }
  for (int j = 0; j < size; ++j) {
    const char least = j == 0 && size > 1 ? '1' : '0';
    const char d = bound.whole[static_cast<std::size_t>(j)];
    if (d > least)
      ways.push_back(sequence_of({Pattern::text(bound.whole.substr(0, static_cast<std::size_t>(j))),
                                  digit(least, static_cast<char>(d - 1)),
                                  digits(size - j - 1, size - j - 1), any_fraction()}));
  }
  ways.push_back(
      sequence_of({Pattern::text(bound.whole), fraction_to(bound.fraction, is_exclusive)}));
  return Pattern::choice(std::move(ways));
}

/// Magnitudes: numbers without a sign.
Pattern magnitudes(const NumberRange& range) {
  int whole = 1, fraction = 0;
  for (const auto& bound : {range.least, range.most})
    if (bound) {
      whole = std::max(whole, static_cast<int>(bound->value.whole.size()));
      fraction = std::max(fraction, static_cast<int>(bound->value.fraction.size()));
    }
  const Pattern integers =
      choice_of({Pattern::text("0"),
                 sequence_of({digit('1', '9'), digits(0, std::max(whole + 1, kDigits) - 1)})});
  if (range.is_integer) return integers;
  const int places = std::max({fraction, kDigits - whole, 1});
  return sequence_of(
      {integers, Pattern::repeat(sequence_of({Pattern::text("."), digits(1, places)}), 0, 1)});
}

}  // namespace

Decimal decimal_of(std::int64_t value) {
  Decimal result;
  result.is_negative = value < 0;
  result.whole = std::to_string(value);
  if (result.is_negative) result.whole.erase(0, 1);
  return result;
}

std::optional<Decimal> decimal_of(double value) {
  if (!(std::abs(value) < 1e18)) return std::nullopt;
  // The shortest decimal text of this number, with its exponent expanded.
  std::string text = fmt::format("{}", std::abs(value));
  int exponent = 0;
  if (const auto at = text.find('e'); at != std::string::npos) {
    exponent = std::stoi(text.substr(at + 1));
    text.erase(at);
  }
  const auto point = text.find('.');
  std::string all = text;
  int places = 0;
  if (point != std::string::npos) {
    all.erase(point, 1);
    places = static_cast<int>(text.size() - point) - 1;
  }
  places -= exponent;
  if (places < 0) all.append(static_cast<std::size_t>(-places), '0'), places = 0;
  if (static_cast<int>(all.size()) <= places)
    all.insert(0, static_cast<std::size_t>(places) - all.size() + 1, '0');
  Decimal result;
  result.is_negative = value < 0;
  result.whole = all.substr(0, all.size() - static_cast<std::size_t>(places));
  result.fraction = all.substr(all.size() - static_cast<std::size_t>(places));
  while (result.whole.size() > 1 && result.whole[0] == '0') result.whole.erase(0, 1);
  while (!result.fraction.empty() && result.fraction.back() == '0') result.fraction.pop_back();
  if (result.fraction.size() > 30) throw usage_error("{} has too many digits", value);
  return result;
}

Expr number_expr(const NumberRange& range, Rules& rules) {
  if (!range.least && !range.most && range.divisor == 1) {
    const Expr whole = Expr::choice(
        {Expr::literal("0"),
         Expr::sequence({Expr::raw("[1-9]"), Expr::repeat(Expr::raw("[0-9]"), 0, 17)})});
    std::vector<Expr> parts = {Expr::optional(Expr::literal("-")), whole};
    if (!range.is_integer) {
      parts.push_back(Expr::optional(
          Expr::sequence({Expr::literal("."), Expr::repeat(Expr::raw("[0-9]"), 1, 18)})));
      parts.push_back(
          Expr::optional(Expr::sequence({Expr::raw("[eE]"), Expr::optional(Expr::raw("[-+]")),
                                         Expr::repeat(Expr::raw("[0-9]"), 1, 2)})));
    }
    return Expr::sequence(std::move(parts));
  }
  const Pattern base = magnitudes(range);
  const Bound zero{{}, true};
  // Pattern of magnitudes between two bounds.
  const auto between = [&](const std::optional<Bound>& low, const std::optional<Bound>& high) {
    const Pattern least = low ? from(low->value, low->is_exclusive) : Pattern();
    const Pattern most = high ? to(high->value, high->is_exclusive) : Pattern();
    std::vector<const Pattern*> all = {&base};
    if (low) all.push_back(&least);
    if (high) all.push_back(&most);
    Automaton automaton = automaton_of(all, {});
    if (range.divisor != 1) automaton = both(automaton, multiples_of(range.divisor));
    return rules.expr_of(automaton, Spelling::kPlain);
  };
  const auto positive = [](const std::optional<Bound>& bound) {
    return bound && !bound->value.is_negative ? bound : std::nullopt;
  };
  const auto negative = [](const std::optional<Bound>& bound) {
    return bound && bound->value.is_negative ? bound : std::nullopt;
  };
  std::vector<Expr> signs;
  const auto add = [&](Expr sign, Expr magnitude) {
    if (!magnitude.is_none())
      signs.push_back(Expr::sequence({std::move(sign), std::move(magnitude)}));
  };
  if (!negative(range.most)) add({}, between(positive(range.least), range.most));
  if (!positive(range.least)) {
    const auto nearest = negative(range.most);
    add(Expr::literal("-"), between(nearest ? nearest : zero, negative(range.least)));
  }
  return Expr::choice(std::move(signs));
}

}  // namespace sinter::grammar
