// SPDX-License-Identifier: Apache-2.0
// Bounds of Dims under ranges of their symbols.
//
// Based on one function, prove_lower_bound(). It replaces terms with known relations (index symbols
// with a symbolic maximum, x mod b, minima, quotients). It ends with interval arithmetic on a
// polynomial whose variables are shifted to start at zero, which shows that B*S - B is non-negative
// for B, S >= 1.
#include <algorithm>

#include <sinter/error.h>

#include "ir/dim/dim.h"
#include "ir/dim/dim_internal.h"

namespace sinter::ir {
namespace {

constexpr int kMaxDepth = 3;   // nested proofs, such as simplified divisions
constexpr int kMaxSteps = 60;  // rewrites tried for one bound

using Bound = std::optional<std::int64_t>;

Bound narrow(__int128 value) {
  if (value > INT64_MAX || value < INT64_MIN) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

Bound negate(const Bound& bound) {
  return bound ? narrow(-static_cast<__int128>(*bound)) : std::nullopt;
}

Bound larger(const Bound& a, const Bound& b) {
  if (!a || !b) return a ? a : b;
  return std::max(*a, *b);
}

/// Throws as the multiplication would: (a + 1)*(b + 1)*.. doubles its terms with each factor.
void check_products(const Dim& e) {
  constexpr std::size_t kMostFactors = 8;
  for (const Dim::Term& term : e.terms()) {
    if (term.factors.size() <= kMostFactors) continue;
    std::size_t different = 1;
    for (std::size_t i = 1; i < term.factors.size(); ++i)
      different += same_atom(term.factors[i - 1], term.factors[i]) ? 0 : 1;
    if (different > kMostFactors)
      throw Error(ErrorCode::kInvalidModel, "a product of too many dimensions");
  }
}

std::ptrdiff_t variable_terms(const Dim& e) {
  return std::ranges::count_if(e.terms(),
                               [](const Dim::Term& term) { return !term.factors.empty(); });
}

class Prover {
 public:
  Prover(const Facts& facts, std::int64_t goal) : facts_(facts), goal_(goal) {}

  Bound lower(const Dim& e);

 private:
  struct Interval {
    Bound low, high;
  };

  Interval symbol_interval(const std::string& name) const;
  const Range* range_of(const std::string& name) const;
  Interval interval(const DimAtom& atom);
  Bound nested_lower(const Dim& e) const;
  Bound by_intervals(const Dim& e);
  std::optional<Dim> without_mod(const Dim& e);
  std::optional<Dim> without_index_symbol(const Dim& e);
  std::optional<Dim> without_quotient(const Dim& e);
  /// True for a sum of constants times different symbols, each with a numeric range.
  bool is_sum_of_numbers(const Dim& e) const;
  Bound by_cases(const Dim& e, const AtomPtr& atom);
  Dim extreme(Dim e, bool upper);
  /// The sign of `e` for all values: 1 (>= 0), -1 (<= 0) or 0 if unknown.
  int sign(const Dim& e) const;
  Facts nested_facts() const {
    return {&all_ranges(), facts_.defaults, facts_.depth + 1, facts_.work};
  }
  const Ranges& all_ranges() const { return extended_ ? *extended_ : *facts_.ranges; }

  Facts facts_;
  std::int64_t goal_;
  int steps_ = 0;
  std::optional<Ranges> extended_;  // the ranges, plus symbols for x mod b
};

const Range* Prover::range_of(const std::string& name) const {
  const auto& ranges = all_ranges();
  const auto found = ranges.find(name);
  return found == ranges.end() ? nullptr : &found->second;
}

Prover::Interval Prover::symbol_interval(const std::string& name) const {
  if (const Range* range = range_of(name)) {
    Interval result{range->min == INT64_MIN ? Bound() : range->min,
                    range->max == INT64_MAX ? Bound() : range->max};
    if (!result.high && range->symbolic_max && range->symbolic_max->is_constant())
      result.high = range->symbolic_max->value();
    return result;
  }
  if (!facts_.defaults) return {};
  return {name.front() == '$' ? 0 : 1, std::nullopt};
}

Bound Prover::nested_lower(const Dim& e) const {
  if (e.is_constant()) return e.value();
  if (is_sum_of_numbers(e)) return Prover(nested_facts(), INT64_MAX).by_intervals(e);
  if (facts_.depth >= kMaxDepth) return std::nullopt;
  return prove_lower_bound(e, nested_facts());
}

int Prover::sign(const Dim& e) const {
  if (e.is_constant()) return e.value() >= 0 ? 1 : -1;
  if (facts_.depth >= kMaxDepth) return 0;
  if (proves_non_negative(e, nested_facts())) return 1;
  return proves_non_negative(Dim(0) - e, nested_facts()) ? -1 : 0;
}

Prover::Interval Prover::interval(const DimAtom& atom) {
  if (atom.kind == DimAtom::Kind::kSymbol) return symbol_interval(atom.name);
  const Interval a{nested_lower(atom.a), negate(nested_lower(Dim(0) - atom.a))};
  const Interval b{nested_lower(atom.b), negate(nested_lower(Dim(0) - atom.b))};
  switch (atom.kind) {
    case DimAtom::Kind::kMin: {
      Interval result;
      if (a.low && b.low) result.low = std::min(*a.low, *b.low);
      result.high = a.high && b.high ? std::min(*a.high, *b.high) : larger(a.high, b.high);
      return result;
    }
    case DimAtom::Kind::kMax: {
      Interval result{larger(a.low, b.low), std::nullopt};
      if (a.high && b.high) result.high = std::max(*a.high, *b.high);
      return result;
    }
    default: break;
  }
  if (!b.low || *b.low < 1) return {};
  Interval result;
  if (a.low) {
    if (*a.low < 0)
      result.low = floor_divide(*a.low, *b.low);
    else
      result.low = b.high ? floor_divide(*a.low, *b.high) : 0;
  }
  if (a.high) {
    if (*a.high >= 0)
      result.high = floor_divide(*a.high, *b.low);
    else
      result.high = b.high ? floor_divide(*a.high, *b.high) : -1;
  }
  return result;
}

// Writes every variable as its minimum plus a non-negative value (or its maximum minus one),
// multiplies out, and evaluates terms with positive coefficients at zero.
Bound Prover::by_intervals(const Dim& e) {
  check_products(e);
  struct Variable {
    AtomPtr atom;
    Bound span;  // range [0, span]
    bool bounded = true;
  };
  std::vector<Variable> variables;
  Dim shifted = e;
  for (const auto& atom : top_level_atoms(e)) {
    const Interval range = interval(*atom);
    Variable variable{atom, std::nullopt, range.low || range.high};
    if (range.low && range.high)
      variable.span = narrow(static_cast<__int128>(*range.high) - *range.low);
    // From here on the atom denotes the shifted variable.
    if (range.low && *range.low != 0)
      shifted = replace_factor(shifted, atom, DimBuilder::from_atom(atom) + Dim(*range.low));
    else if (!range.low && range.high)
      shifted = replace_factor(shifted, atom, Dim(*range.high) - DimBuilder::from_atom(atom));
    variables.push_back(std::move(variable));
  }
  __int128 total = 0;
  for (const auto& term : shifted.terms()) {
    if (term.factors.empty()) {
      total += term.coefficient;
      continue;
    }
    __int128 least = term.coefficient;
    bool is_zero_least = term.coefficient > 0;
    for (const auto& atom : term.factors) {
      const auto variable = std::ranges::find_if(
          variables, [&](const Variable& candidate) { return same_atom(candidate.atom, atom); });
      if (variable == variables.end() || !variable->bounded) return std::nullopt;
      if (is_zero_least) continue;
      if (!variable->span) return std::nullopt;
      least *= *variable->span;
      if (!narrow(least)) return std::nullopt;
    }
    if (!is_zero_least) total += least;
    if (!narrow(total)) return std::nullopt;
  }
  return narrow(total);
}

// Replaces a linear symbol, with a coefficient of known sign, by the end of its range where `e` is
// least. Index symbols first: their maxima are relative to other symbols.
std::optional<Dim> Prover::without_index_symbol(const Dim& e) {
  for (const bool symbolic : {true, false}) {
    for (const auto& atom : top_level_atoms(e)) {
      if (atom->kind != DimAtom::Kind::kSymbol) continue;
      const Range* range = range_of(atom->name);
      if (!range || range->min == INT64_MIN || (range->symbolic_max != nullptr) != symbolic ||
          (!symbolic && range->max == INT64_MAX))
        continue;
      const auto linear = linear_in(e, atom);
      if (!linear) continue;
      const int direction = sign(linear->coefficient);
      if (direction == 0) continue;
      const Dim high = symbolic ? *range->symbolic_max : Dim(range->max);
      return linear->coefficient * (direction > 0 ? Dim(range->min) : high) + linear->rest;
    }
  }
  return std::nullopt;
}

// An upper (lower) bound of `e` without the index symbols that can be removed.
Dim Prover::extreme(Dim e, bool upper) {
  if (upper) e = Dim(0) - e;
  for (int i = 0; i < 16; ++i) {
    auto next = without_index_symbol(e);
    if (!next) break;
    e = std::move(*next);
  }
  return upper ? Dim(0) - e : e;
}

// Replaces x - b*floordiv(x, b) by a symbol in [0, b). Also floordiv(x, c) - (b/c)*floordiv(x, b),
// which is floordiv(x, c) mod b/c, and the same for x + k*c with floordiv(x, c) + k: sizes after
// two strided windows differ by such terms.
std::optional<Dim> Prover::without_mod(const Dim& e) {
  const auto atoms = top_level_atoms(e);
  for (const auto& atom : atoms) {
    if (atom->kind != DimAtom::Kind::kFloorDiv) continue;
    const auto linear = linear_in(e, atom);
    if (!linear) continue;
    struct Form {
      Dim numerator, divisor;
    };
    std::vector<Form> forms{{atom->a, atom->b}};
    for (const auto& other : atoms) {
      if (other == atom || other->kind != DimAtom::Kind::kFloorDiv) continue;
      const auto ratio = divide_exactly(atom->b, other->b);
      const auto shift = ratio ? divide_exactly(atom->a - other->a, other->b) : std::nullopt;
      if (shift) forms.push_back({DimBuilder::from_atom(other) + *shift, *ratio});
    }
    for (const auto& form : forms) {
      const auto factor = divide_exactly(Dim(0) - linear->coefficient, form.divisor);
      if (!factor) continue;
      const Dim rest = linear->rest - *factor * form.numerator;
      if (variable_terms(rest) >= variable_terms(linear->rest)) continue;
      if (sign(form.divisor - Dim(1)) <= 0) continue;
      if (!extended_) extended_ = *facts_.ranges;
      const std::string name =
          "%" + std::to_string(facts_.depth) + "." + std::to_string(extended_->size());
      Range range;
      range.min = 0;
      range.symbolic_max = std::make_shared<const Dim>(form.divisor - Dim(1));
      if (form.divisor.is_constant()) range.max = form.divisor.value() - 1;
      extended_->insert_or_assign(name, std::move(range));
      return rest + *factor * Dim::symbol(name);
    }
  }
  return std::nullopt;
}

// Bounds a quotient floordiv(a, b) by removing index symbols from a: with i < B*S,
// floordiv(i, S) <= floordiv(B*S - 1, S) = B - 1.
std::optional<Dim> Prover::without_quotient(const Dim& e) {
  if (facts_.depth >= kMaxDepth) return std::nullopt;
  for (const auto& atom : top_level_atoms(e)) {
    if (atom->kind != DimAtom::Kind::kFloorDiv) continue;
    const auto linear = linear_in(e, atom);
    if (!linear) continue;
    const int direction = sign(linear->coefficient);
    if (direction == 0 || sign(atom->b - Dim(1)) <= 0) continue;
    const Dim end = extreme(atom->a, direction < 0);
    if (end == atom->a) continue;
    return linear->coefficient * floor_div(end, atom->b, nested_facts()) + linear->rest;
  }
  return std::nullopt;
}

// A minimum or maximum is one of its operands.
Bound Prover::by_cases(const Dim& e, const AtomPtr& atom) {
  const Bound first = lower(replace_factor(e, atom, atom->a));
  const Bound second = lower(replace_factor(e, atom, atom->b));
  const auto linear = linear_in(e, atom);
  const int direction = linear ? sign(linear->coefficient) : 0;
  // Where e decreases with a minimum (increases with a maximum), both cases are lower bounds.
  const bool both = atom->kind == DimAtom::Kind::kMin ? direction < 0 : direction > 0;
  if (both) return larger(first, second);
  if (!first || !second) return std::nullopt;
  return std::min(*first, *second);
}

// For such a sum the intervals are already tight.
bool Prover::is_sum_of_numbers(const Dim& e) const {
  return std::ranges::all_of(e.terms(), [&](const Dim::Term& term) {
    if (term.factors.empty()) return true;
    if (term.factors.size() > 1 || term.factors[0]->kind != DimAtom::Kind::kSymbol) return false;
    const Range* range = range_of(term.factors[0]->name);
    return range == nullptr || range->symbolic_max == nullptr;
  });
}

Bound Prover::lower(const Dim& e) {
  if (e.is_constant()) return e.value();
  if (facts_.work != nullptr && --*facts_.work < 0) return std::nullopt;
  Bound best = by_intervals(e);
  const auto done = [&] { return (best && *best >= goal_) || ++steps_ > kMaxSteps; };
  if (done() || is_sum_of_numbers(e)) return best;
  for (const auto& atom : top_level_atoms(e)) {
    if (atom->kind != DimAtom::Kind::kMin && atom->kind != DimAtom::Kind::kMax) continue;
    return larger(best, by_cases(e, atom));
  }
  if (auto next = without_mod(e)) best = larger(best, lower(*next));
  if (done()) return best;
  if (auto next = without_index_symbol(e)) best = larger(best, lower(*next));
  if (done()) return best;
  if (auto next = without_quotient(e)) best = larger(best, lower(*next));
  return best;
}

}  // namespace

std::vector<AtomPtr> top_level_atoms(const Dim& e) {
  std::vector<AtomPtr> atoms;
  for (const auto& term : e.terms())
    atoms.insert(atoms.end(), term.factors.begin(), term.factors.end());
  std::ranges::sort(
      atoms, [](const AtomPtr& a, const AtomPtr& b) { return a != b && compare(*a, *b) < 0; });
  atoms.erase(std::unique(atoms.begin(), atoms.end(), same_atom), atoms.end());
  return atoms;
}

std::optional<LinearIn> linear_in(const Dim& e, const AtomPtr& atom) {
  std::vector<Dim::Term> coefficient, rest;
  for (const auto& term : e.terms()) {
    const auto quotient = divide_monomial(term.factors, {atom});
    if (!quotient) {
      rest.push_back(term);
    } else if (divide_monomial(*quotient, {atom})) {
      return std::nullopt;
    } else {
      coefficient.push_back({*quotient, term.coefficient});
    }
  }
  // Dividing every term by the same factor keeps their order.
  return LinearIn{DimBuilder::from_normal(std::move(coefficient)),
                  DimBuilder::from_normal(std::move(rest))};
}

Dim replace_factor(const Dim& e, const AtomPtr& atom, const Dim& replacement) {
  std::vector<Dim::Term> untouched;  // these keep their order
  Dim sum = 0;
  for (const auto& term : e.terms()) {
    if (std::ranges::none_of(term.factors,
                             [&](const AtomPtr& factor) { return same_atom(factor, atom); })) {
      untouched.push_back(term);
      continue;
    }
    Dim product = term.coefficient;
    for (const auto& factor : term.factors)
      product *= (same_atom(factor, atom) ? replacement : DimBuilder::from_atom(factor));
    sum += product;
  }
  return sum + DimBuilder::from_normal(std::move(untouched));
}

std::optional<std::int64_t> prove_lower_bound(const Dim& a, const Facts& facts, std::int64_t goal) {
  if (a.is_constant()) return a.value();
  try {
    return Prover(facts, goal).lower(a);
  } catch (const Error&) {  // an overflow in the proof: nothing is known
    return std::nullopt;
  }
}

std::optional<std::int64_t> lower_bound(const Dim& a, const Ranges& ranges) {
  int work = kMaxWork;
  return prove_lower_bound(a, Facts{&ranges, true, 0, &work});
}

std::optional<std::int64_t> upper_bound(const Dim& a, const Ranges& ranges) {
  return negate(lower_bound(Dim(0) - a, ranges));
}

bool proves_le(const Dim& a, const Dim& b, const Ranges& ranges) {
  int work = kMaxWork;
  return proves_non_negative(b - a, Facts{&ranges, true, 0, &work});
}

Range index_range(const Dim& extent, const Ranges& ranges) {
  Range range;
  range.min = 0;
  if (const auto upper = upper_bound(extent, ranges)) range.max = *upper - 1;
  range.symbolic_max = std::make_shared<const Dim>(extent - Dim(1));
  return range;
}

}  // namespace sinter::ir
