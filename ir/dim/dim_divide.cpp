// SPDX-License-Identifier: Apache-2.0
// Division, minimum and maximum of Dims, and rebuilding expressions under new symbols or ranges.
#include <algorithm>
#include <numeric>

#include <sinter/error.h>

#include "ir/dim/dim.h"
#include "ir/dim/dim_internal.h"

namespace sinter::ir {
namespace {

Dim make_atom(DimAtom::Kind kind, const Dim& a, const Dim& b) {
  auto atom = std::make_shared<DimAtom>();
  atom->kind = kind;
  atom->a = a;
  atom->b = b;
  return DimBuilder::from_atom(std::move(atom));
}

Dim without_constant(const Dim& a) {
  std::vector<Dim::Term> terms = a.terms();
  if (!terms.empty() && terms.back().factors.empty()) terms.pop_back();
  return DimBuilder::normalize(std::move(terms));
}

std::int64_t constant_term(const Dim& a) {
  return !a.terms().empty() && a.terms().back().factors.empty() ? a.terms().back().coefficient : 0;
}

struct Division {
  Dim quotient, remainder;
};

// a = quotient * b + remainder, where b's leading term reduces no term of the remainder further.
// Coefficients are reduced towards zero, which keeps their sign: -i + 5 stays in [0, 6) for i < 6.
// For a constant b the constant term is reduced to [0, b).
Division split(const Dim& a, const Dim& b) {
  const Dim::Term& lead = b.terms().front();
  Dim quotient = 0, remainder = a;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& term : remainder.terms()) {
      const auto monomial = divide_monomial(term.factors, lead.factors);
      if (!monomial) continue;
      const std::int64_t coefficient = term.factors.empty()
                                           ? floor_divide(term.coefficient, lead.coefficient)
                                           : term.coefficient / lead.coefficient;
      if (coefficient == 0) continue;
      const Dim part = DimBuilder::from_term(*monomial, coefficient);
      quotient += part;
      remainder = remainder - part * b;
      changed = true;
      break;
    }
  }
  return {quotient, remainder};
}

// The greatest common monomial of two terms, with a positive coefficient.
Dim::Term common_factor(const Dim::Term& a, const Dim::Term& b) {
  Dim::Term common;
  const bool extreme = a.coefficient == INT64_MIN || b.coefficient == INT64_MIN;
  common.coefficient = extreme ? 1 : std::gcd(a.coefficient, b.coefficient);
  std::set_intersection(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(),
                        std::back_inserter(common.factors), [](const AtomPtr& p, const AtomPtr& q) {
                          return p != q && compare(*p, *q) < 0;
                        });
  return common;
}

// floor((g*high + low) / (g*rest_of_b)) = floor(high / rest_of_b) if 0 <= low < g: with d < 32,
// (h*32 + d) / 384 = h / 12. Also plain cancellation, where low is zero.
std::optional<Dim> cancel_common_factor(const Dim& a, const Dim& b, const Facts& facts) {
  if (b.terms().size() != 1) {
    Dim::Term common = common_factor(b.terms().front(), b.terms().back());
    for (const auto& term : a.terms()) common = common_factor(common, term);
    for (const auto& term : b.terms()) common = common_factor(common, term);
    if (common.factors.empty() && common.coefficient == 1) return std::nullopt;
    const Dim g = DimBuilder::from_term(common.factors, common.coefficient);
    return floor_div(*divide_exactly(a, g), *divide_exactly(b, g), facts);
  }
  for (const auto& candidate : a.terms()) {
    if (candidate.factors.empty()) continue;
    const Dim::Term common = common_factor(candidate, b.terms().front());
    if (common.factors.empty() && common.coefficient == 1) continue;
    const Dim g = DimBuilder::from_term(common.factors, common.coefficient);
    std::vector<Dim::Term> high, low;
    for (const auto& term : a.terms()) {
      const bool divides = term.coefficient % common.coefficient == 0 &&
                           divide_monomial(term.factors, common.factors);
      if (!divides && term.factors.empty() && common.factors.empty()) {
        const std::int64_t whole =
            floor_divide(term.coefficient, common.coefficient) * common.coefficient;
        high.push_back({{}, whole});
        low.push_back({{}, term.coefficient - whole});
      } else {
        (divides ? high : low).push_back(term);
      }
    }
    const Dim high_part = DimBuilder::normalize(std::move(high));
    const Dim low_part = DimBuilder::normalize(std::move(low));
    if (low_part.terms().empty() ||
        (proves_non_negative(low_part, facts) && proves_non_negative(g - Dim(1) - low_part, facts)))
      return floor_div(*divide_exactly(high_part, g), *divide_exactly(b, g), facts);
  }
  return std::nullopt;
}

bool proves_positive(const Dim& a, const Facts& facts) {
  return a.is_constant() ? a.value() > 0 : proves_non_negative(a - Dim(1), facts);
}

// floor((floor(x / c) + n) / b) = floor((x + n*c) / (b*c)) for b > 0: with i < h*w,
// floordiv(floordiv(i, w), h) = floordiv(i, h*w) = 0.
std::optional<Dim> merge_nested_division(const Dim& a, const Dim& b, const Facts& facts) {
  const DimAtom* inner = nullptr;
  Dim rest = a;
  for (const auto& term : a.terms()) {
    for (const auto& atom : term.factors) {
      if (atom->kind != DimAtom::Kind::kFloorDiv) continue;
      if (inner || term.factors.size() != 1 || term.coefficient != 1) return std::nullopt;
      inner = atom.get();
      rest = a - DimBuilder::from_atom(atom);
    }
  }
  if (!inner || !proves_positive(b, facts)) return std::nullopt;
  return floor_div(inner->a + rest * inner->b, b * inner->b, facts);
}

// The only value of floor(r / b) under `facts`, if that is proved to be -1 or 0, or if b is
// constant and bounds determine it.
std::optional<std::int64_t> decided_quotient(const Dim& r, const Dim& b, const Facts& facts) {
  const bool non_negative = proves_non_negative(r, facts);
  if (non_negative && proves_non_negative(b - Dim(1) - r, facts)) return 0;
  if (b.is_constant()) {
    const auto low = prove_lower_bound(r, facts);
    if (!low) return std::nullopt;
    const std::int64_t quotient = floor_divide(*low, b.value());
    if (quotient == 0) return std::nullopt;  // tried above
    const Dim last = Dim(quotient) * b + b - Dim(1);
    if (proves_non_negative(last - r, facts)) return quotient;
  } else if (!non_negative && proves_non_negative(Dim(-1) - r, facts) &&
             proves_non_negative(r + b, facts)) {
    return -1;
  }
  return std::nullopt;
}

Dim rebuild(const Dim& dim, const std::map<std::string, Dim, std::less<>>& replacements,
            const Facts& facts) {
  Dim sum = 0;
  for (const auto& term : dim.terms()) {
    Dim product = term.coefficient;
    for (const auto& atom : term.factors) {
      if (atom->kind == DimAtom::Kind::kSymbol) {
        const auto found = replacements.find(atom->name);
        product *= (found == replacements.end() ? DimBuilder::from_atom(atom) : found->second);
        continue;
      }
      const Dim a = rebuild(atom->a, replacements, facts);
      const Dim b = rebuild(atom->b, replacements, facts);
      switch (atom->kind) {
        case DimAtom::Kind::kFloorDiv: product = product * floor_div(a, b, facts); break;
        case DimAtom::Kind::kMin: product = product * min(a, b, facts); break;
        default: product = product * max(a, b, facts); break;
      }
    }
    sum += product;
  }
  return sum;
}

}  // namespace

const Facts& no_facts() {
  static const Ranges none;
  static const Facts facts{&none, false};
  return facts;
}

std::optional<Dim::Monomial> divide_monomial(const Dim::Monomial& numerator,
                                             const Dim::Monomial& denominator) {
  Dim::Monomial quotient;
  std::size_t next = 0;
  for (const auto& atom : numerator) {
    if (next < denominator.size() && same_atom(atom, denominator[next]))
      ++next;
    else
      quotient.push_back(atom);
  }
  if (next < denominator.size()) return std::nullopt;
  return quotient;
}

Dim floor_div(const Dim& a, const Dim& b, const Facts& facts) {
  if (b.terms().empty())
    throw Error(ErrorCode::kInvalidModel, "division of dimension '" + a.to_string() + "' by zero");
  if (b.terms().front().coefficient < 0) return floor_div(Dim(0) - a, Dim(0) - b, facts);
  if (a.is_constant() && b.is_constant()) return floor_divide(a.value(), b.value());
  if (auto exact = divide_exactly(a, b)) return *exact;
  const auto [quotient, remainder] = split(a, b);
  if (remainder.terms().empty()) return quotient;
  if (const auto decided = decided_quotient(remainder, b, facts)) return quotient + Dim(*decided);
  if (auto reduced = cancel_common_factor(remainder, b, facts)) return quotient + *reduced;
  if (auto merged = merge_nested_division(remainder, b, facts)) return quotient + *merged;
  return quotient + make_atom(DimAtom::Kind::kFloorDiv, remainder, b);
}

namespace {

// Sorts the operands structurally, ignoring constants, and moves the first one's constant out:
// max(n + 1, 3) is 1 + max(n, 2).
Dim min_or_max(DimAtom::Kind kind, const Dim& a, const Dim& b, const Facts& facts) {
  if (a == b) return a;
  const bool is_min = kind == DimAtom::Kind::kMin;
  if (proves_non_negative(b - a, facts)) return is_min ? a : b;
  if (proves_non_negative(a - b, facts)) return is_min ? b : a;
  const bool swap =
      b.is_constant() ? false : a.is_constant() || without_constant(b) < without_constant(a);
  const Dim& first = swap ? b : a;
  const Dim& second = swap ? a : b;
  const Dim shift = constant_term(first);
  return shift + make_atom(kind, without_constant(first), second - shift);
}

}  // namespace

Dim min(const Dim& a, const Dim& b, const Facts& facts) {
  return min_or_max(DimAtom::Kind::kMin, a, b, facts);
}

Dim max(const Dim& a, const Dim& b, const Facts& facts) {
  return min_or_max(DimAtom::Kind::kMax, a, b, facts);
}

Dim floor_div(const Dim& a, const Dim& b, const Ranges& ranges) {
  int work = kMaxWork;
  return floor_div(a, b, Facts{&ranges, true, 0, &work});
}

Dim mod(const Dim& a, const Dim& b, const Ranges& ranges) {
  return a - b * floor_div(a, b, ranges);
}

Dim ceil_div(const Dim& a, const Dim& b, const Ranges& ranges) {
  if (b.is_constant() && b.value() < 0) return ceil_div(Dim(0) - a, Dim(0) - b, ranges);
  const auto low = lower_bound(b, ranges);
  if (low && *low >= 1) return floor_div(a + b - Dim(1), b, ranges);
  return Dim(0) - floor_div(Dim(0) - a, b, ranges);
}

Dim min(const Dim& a, const Dim& b, const Ranges& ranges) {
  int work = kMaxWork;
  return min(a, b, Facts{&ranges, true, 0, &work});
}

Dim max(const Dim& a, const Dim& b, const Ranges& ranges) {
  int work = kMaxWork;
  return max(a, b, Facts{&ranges, true, 0, &work});
}

std::optional<Dim> divide_exactly(const Dim& a, const Dim& b) {
  if (b.terms().empty()) return std::nullopt;
  const Dim::Term& lead = b.terms().front();
  Dim quotient = 0, rest = a;
  while (!rest.terms().empty()) {
    const Dim::Term& term = rest.terms().front();
    const auto monomial = divide_monomial(term.factors, lead.factors);
    if (!monomial) return std::nullopt;
    const std::int64_t ratio = floor_divide(term.coefficient, lead.coefficient);
    if (ratio * lead.coefficient != term.coefficient) return std::nullopt;
    const Dim part = DimBuilder::from_term(*monomial, ratio);
    quotient += part;
    rest = rest - part * b;
  }
  return quotient;
}

bool is_multiple_of(const Dim& a, std::int64_t divisor) {
  if (divisor == 0) return a.terms().empty();
  return std::ranges::all_of(a.terms(), [&](const Dim::Term& term) {
    return divisor == -1 || term.coefficient % divisor == 0;
  });
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& replacements) const {
  return rebuild(*this, replacements, no_facts());
}

Dim simplify(const Dim& dim, const Ranges& ranges) {
  int work = kMaxWork;
  return rebuild(dim, {}, Facts{&ranges, true, 0, &work});
}

}  // namespace sinter::ir
