// SPDX-License-Identifier: Apache-2.0
#include "ir/dim/dim.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim_internal.h"

namespace sinter::ir {
namespace {

// Limits the work for a hostile expression: (a+b)*(c+d)*... doubles with each factor.
constexpr std::size_t kMaxTerms = 4096;

[[noreturn]] void overflow(std::string_view what, std::int64_t a, std::int64_t b) {
  throw Error(ErrorCode::kInvalidModel,
              fmt::format("a dimension overflows 64 bits: {} {} {}", a, what, b));
}

const std::shared_ptr<const std::vector<Dim::Term>>& no_terms() {
  static const auto empty = std::make_shared<const std::vector<Dim::Term>>();
  return empty;
}

Dim scale(const Dim& a, std::int64_t factor) {
  if (factor == 0) return 0;
  std::vector<Dim::Term> terms = a.terms();
  for (auto& term : terms) term.coefficient = checked_mul(term.coefficient, factor);
  return DimBuilder::from_normal(std::move(terms));
}

void collect_symbols(const Dim& dim, std::vector<std::string>& names) {
  for (const auto& term : dim.terms())
    for (const auto& atom : term.factors) {
      if (atom->kind == DimAtom::Kind::kSymbol) {
        names.push_back(atom->name);
      } else {
        collect_symbols(atom->a, names);
        collect_symbols(atom->b, names);
      }
    }
}

std::int64_t evaluate_atom(const DimAtom& atom, const Bindings& bindings) {
  if (atom.kind == DimAtom::Kind::kSymbol) {
    const auto found = bindings.find(atom.name);
    if (found == bindings.end())
      throw Error(ErrorCode::kUsage, fmt::format("dimension '{}' has no value", atom.name));
    return found->second;
  }
  const std::int64_t a = atom.a.evaluate(bindings), b = atom.b.evaluate(bindings);
  if (atom.kind == DimAtom::Kind::kMin) return std::min(a, b);
  if (atom.kind == DimAtom::Kind::kMax) return std::max(a, b);
  if (b == 0)
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("division by zero: '{}' is 0 in 'floordiv({}, {})'", atom.b.to_string(),
                            atom.a.to_string(), atom.b.to_string()));
  return floor_divide(a, b);
}

std::string atom_text(const DimAtom& atom) {
  switch (atom.kind) {
    case DimAtom::Kind::kSymbol: return is_plain_symbol(atom.name) ? atom.name : quote(atom.name);
    case DimAtom::Kind::kFloorDiv:
      return fmt::format("floordiv({}, {})", atom.a.to_string(), atom.b.to_string());
    case DimAtom::Kind::kMin:
      return fmt::format("min({}, {})", atom.a.to_string(), atom.b.to_string());
    case DimAtom::Kind::kMax:
      return fmt::format("max({}, {})", atom.a.to_string(), atom.b.to_string());
  }
  return "?";
}

}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_add_overflow(a, b, &result)) overflow("+", a, b);
  return result;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) overflow("*", a, b);
  return result;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (a == INT64_MIN && b == -1) overflow("/", a, b);
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::strong_ordering compare(const DimAtom& a, const DimAtom& b) {
  if (a.kind != b.kind) return a.kind <=> b.kind;
  if (a.kind == DimAtom::Kind::kSymbol) return a.name.compare(b.name) <=> 0;
  if (const auto order = a.a <=> b.a; order != 0) return order;
  return a.b <=> b.b;
}

// Graded lexicographic order, highest degree first: constants come last, and the leading term of a
// product is the product of the leading terms, which exact division needs.
std::strong_ordering compare(const Dim::Monomial& a, const Dim::Monomial& b) {
  if (a.size() != b.size()) return b.size() <=> a.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (const auto order = compare(*a[i], *b[i]); order != 0) return order;
  }
  return std::strong_ordering::equal;
}

Dim DimBuilder::normalize(std::vector<Dim::Term> terms) {
  std::ranges::sort(terms, [](const Dim::Term& a, const Dim::Term& b) {
    return compare(a.factors, b.factors) < 0;
  });
  std::vector<Dim::Term> merged;
  merged.reserve(terms.size());
  for (auto& term : terms) {
    if (!merged.empty() && compare(merged.back().factors, term.factors) == 0)
      merged.back().coefficient = checked_add(merged.back().coefficient, term.coefficient);
    else
      merged.push_back(std::move(term));
  }
  std::erase_if(merged, [](const Dim::Term& term) { return term.coefficient == 0; });
  return from_normal(std::move(merged));
}

Dim DimBuilder::from_normal(std::vector<Dim::Term> terms) {
  Dim dim;
  if (!terms.empty()) dim.terms_ = std::make_shared<const std::vector<Dim::Term>>(std::move(terms));
  return dim;
}

Dim DimBuilder::from_atom(AtomPtr atom) { return from_term({std::move(atom)}, 1); }

Dim DimBuilder::from_term(Dim::Monomial factors, std::int64_t coefficient) {
  if (coefficient == 0) return 0;
  std::vector<Dim::Term> terms;
  terms.push_back({std::move(factors), coefficient});
  return from_normal(std::move(terms));
}

Dim::Dim(std::int64_t value) {
  using Terms = std::shared_ptr<const std::vector<Term>>;
  const auto make = [](std::int64_t number) -> Terms {
    if (number == 0) return no_terms();
    return std::make_shared<const std::vector<Term>>(std::vector<Term>{Term{{}, number}});
  };
  // Caches small constants, as most dimensions and strides are small.
  constexpr std::int64_t kFew = 256;
  static const std::vector<Terms> few = [&] {
    std::vector<Terms> all;
    for (std::int64_t i = 0; i < kFew; ++i) all.push_back(make(i));
    return all;
  }();
  terms_ = value >= 0 && value < kFew ? few[static_cast<std::size_t>(value)] : make(value);
}

Dim Dim::symbol(std::string_view name) {
  if (name.empty()) throw Error(ErrorCode::kInternal, "a symbolic dimension needs a name");
  auto atom = std::make_shared<DimAtom>();
  atom->name = std::string(name);
  return DimBuilder::from_atom(std::move(atom));
}

bool Dim::is_constant() const {
  return terms_->empty() || (terms_->size() == 1 && terms_->front().factors.empty());
}

std::int64_t Dim::value() const {
  if (!is_constant())
    throw Error(ErrorCode::kInternal,
                fmt::format("dimension '{}' is symbolic where a constant is needed", to_string()));
  return terms_->empty() ? 0 : terms_->front().coefficient;
}

std::optional<std::string> Dim::as_symbol() const {
  if (terms_->size() != 1) return std::nullopt;
  const Term& term = terms_->front();
  if (term.coefficient != 1 || term.factors.size() != 1 ||
      term.factors.front()->kind != DimAtom::Kind::kSymbol)
    return std::nullopt;
  return term.factors.front()->name;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (b.terms().empty()) return a;
  if (a.terms().empty()) return b;
  std::vector<Dim::Term> terms;
  terms.reserve(a.terms().size() + b.terms().size());
  auto x = a.terms().begin(), y = b.terms().begin();
  while (x != a.terms().end() && y != b.terms().end()) {
    const auto order = compare(x->factors, y->factors);
    if (order < 0) {
      terms.push_back(*x++);
    } else if (order > 0) {
      terms.push_back(*y++);
    } else {
      const std::int64_t sum = checked_add(x->coefficient, y->coefficient);
      if (sum != 0) terms.push_back({x->factors, sum});
      ++x, ++y;
    }
  }
  terms.insert(terms.end(), x, a.terms().end());
  terms.insert(terms.end(), y, b.terms().end());
  return DimBuilder::from_normal(std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) { return b.terms().empty() ? a : a + scale(b, -1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (b.is_constant()) return b.value() == 1 ? a : scale(a, b.value());
  if (a.is_constant()) return a.value() == 1 ? b : scale(b, a.value());
  if (a.terms().size() * b.terms().size() > kMaxTerms)
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("a dimension expression grows beyond {} terms", kMaxTerms));
  std::vector<Dim::Term> terms;
  terms.reserve(a.terms().size() * b.terms().size());
  for (const auto& x : a.terms())
    for (const auto& y : b.terms()) {
      Dim::Monomial factors(x.factors.size() + y.factors.size());
      std::merge(x.factors.begin(), x.factors.end(), y.factors.begin(), y.factors.end(),
                 factors.begin(),
                 [](const AtomPtr& p, const AtomPtr& q) { return p != q && compare(*p, *q) < 0; });
      terms.push_back({std::move(factors), checked_mul(x.coefficient, y.coefficient)});
    }
  return DimBuilder::normalize(std::move(terms));
}

bool operator==(const Dim& a, const Dim& b) { return (a <=> b) == 0; }

std::strong_ordering operator<=>(const Dim& a, const Dim& b) {
  if (a.terms_ == b.terms_) return std::strong_ordering::equal;
  const auto &x = a.terms(), &y = b.terms();
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (const auto order = compare(x[i].factors, y[i].factors); order != 0) return order;
    if (const auto order = x[i].coefficient <=> y[i].coefficient; order != 0) return order;
  }
  return x.size() <=> y.size();
}

std::size_t hash_of(const Dim& dim) {
  std::size_t hash = dim.terms().size();
  const auto mix = [&](std::size_t value) {
    hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  };
  for (const Dim::Term& term : dim.terms()) {
    mix(static_cast<std::size_t>(term.coefficient));
    for (const AtomPtr& atom : term.factors) {
      mix(static_cast<std::size_t>(atom->kind));
      if (atom->kind == DimAtom::Kind::kSymbol) {
        mix(std::hash<std::string>()(atom->name));
      } else {
        mix(hash_of(atom->a));
        mix(hash_of(atom->b));
      }
    }
  }
  return hash;
}

bool operator==(const Range& a, const Range& b) {
  if (a.min != b.min || a.max != b.max || a.from_data != b.from_data) return false;
  if (!a.symbolic_max || !b.symbolic_max) return a.symbolic_max == b.symbolic_max;
  return *a.symbolic_max == *b.symbolic_max;
}

std::vector<std::string> Dim::symbols() const {
  std::vector<std::string> names;
  collect_symbols(*this, names);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::int64_t Dim::evaluate(const Bindings& bindings) const {
  std::int64_t sum = 0;
  for (const auto& term : *terms_) {
    std::int64_t product = term.coefficient;
    for (const auto& atom : term.factors)
      product = checked_mul(product, evaluate_atom(*atom, bindings));
    sum = checked_add(sum, product);
  }
  return sum;
}

std::string Dim::to_string() const {
  if (terms_->empty()) return "0";
  std::string text;
  for (const auto& term : *terms_) {
    const bool negative = term.coefficient < 0;
    if (!text.empty())
      text += negative ? " - " : " + ";
    else if (negative)
      text += "-";
    // The magnitude as unsigned: also correct for INT64_MIN.
    const std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(term.coefficient)
                                             : static_cast<std::uint64_t>(term.coefficient);
    bool first = true;
    if (magnitude != 1 || term.factors.empty()) {
      text += std::to_string(magnitude);
      first = false;
    }
    for (const auto& atom : term.factors) {
      if (!first) text += "*";
      text += atom_text(*atom);
      first = false;
    }
  }
  return text;
}

namespace {

/// Subtracts the symbols and functions of `dim` from `left`; false once that is exhausted.
bool spend(const Dim& dim, int& left) {
  for (const Dim::Term& term : dim.terms())
    for (const AtomPtr& factor : term.factors) {
      if (--left < 0) return false;
      if (factor->kind != DimAtom::Kind::kSymbol &&
          (!spend(factor->a, left) || !spend(factor->b, left)))
        return false;
    }
  return true;
}

}  // namespace

bool is_longer(const Dim& dim, int most) { return !spend(dim, most); }

Dim element_count(const Shape& shape) {
  Dim count = 1;
  for (const auto& dim : shape) count *= dim;
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += shape[i].to_string();
  }
  return text + "]";
}

std::vector<Dim> contiguous_strides(const Shape& shape) {
  std::vector<Dim> strides(shape.size(), Dim(1));
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Dim linearize(std::span<const Dim> index, const Shape& shape) {
  const std::vector<Dim> strides = contiguous_strides(shape);
  Dim sum = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) sum += strides[d] * index[d];
  return sum;
}

}  // namespace sinter::ir
