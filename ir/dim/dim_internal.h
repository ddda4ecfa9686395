// SPDX-License-Identifier: Apache-2.0
// Shared by the dim_*.cpp files; nothing else includes this.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dim/dim.h"

namespace sinter::ir {

using AtomPtr = std::shared_ptr<const DimAtom>;

/// Makes Dims from terms in normal form, or normalizes them.
struct DimBuilder {
  /// Sorts, merges like terms and drops zeros.
  static Dim normalize(std::vector<Dim::Term> terms);
  /// Terms must be sorted, distinct and nonzero.
  static Dim from_normal(std::vector<Dim::Term> terms);
  static Dim from_atom(AtomPtr atom);
  /// `factors` must be sorted.
  static Dim from_term(Dim::Monomial factors, std::int64_t coefficient);
};

std::strong_ordering compare(const DimAtom& a, const DimAtom& b);
std::strong_ordering compare(const Dim::Monomial& a, const Dim::Monomial& b);
inline bool same_atom(const AtomPtr& a, const AtomPtr& b) {
  return a == b || compare(*a, *b) == std::strong_ordering::equal;
}

std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_mul(std::int64_t a, std::int64_t b);
/// floor(a / b) for b != 0; throws in the one case of overflow.
std::int64_t floor_divide(std::int64_t a, std::int64_t b);

/// numerator / denominator as monomials, if it contains all of the denominator's factors.
std::optional<Dim::Monomial> divide_monomial(const Dim::Monomial& numerator,
                                             const Dim::Monomial& denominator);

/// Assumptions about symbols. Without `defaults`, symbols not in `ranges` may be any integer:
/// rebuilding an expression must not use assumptions that it was built without.
struct Facts {
  const Ranges* ranges = nullptr;
  bool defaults = true;
  int depth = 0;        // depth of nested proofs; limited
  int* work = nullptr;  // budget of bounds in total; null: unlimited
};
const Facts& no_facts();
/// Bounds that one query may compute: a few dozen suffice for models, but nested divisions of long
/// expressions multiply them.
inline constexpr int kMaxWork = 150;

Dim floor_div(const Dim& a, const Dim& b, const Facts& facts);
Dim min(const Dim& a, const Dim& b, const Facts& facts);
Dim max(const Dim& a, const Dim& b, const Facts& facts);

/// A constant lower bound of `a`. Stops early once it has proved `goal`.
std::optional<std::int64_t> prove_lower_bound(const Dim& a, const Facts& facts,
                                              std::int64_t goal = INT64_MAX);
inline bool proves_non_negative(const Dim& a, const Facts& facts) {
  if (a.is_constant()) return a.value() >= 0;
  const auto bound = prove_lower_bound(a, facts, 0);
  return bound && *bound >= 0;
}

/// e = coefficient * atom + rest, if `atom` occurs only with exponent one at the top level.
struct LinearIn {
  Dim coefficient, rest;
};
std::optional<LinearIn> linear_in(const Dim& e, const AtomPtr& atom);

/// Replaces every top-level factor `atom` of `e`; atoms inside other atoms stay.
Dim replace_factor(const Dim& e, const AtomPtr& atom, const Dim& replacement);

/// The distinct top-level atoms of `e`, in order.
std::vector<AtomPtr> top_level_atoms(const Dim& e);

/// A syntax error in the text of a Dim, at a byte offset.
struct DimSyntaxError {
  std::size_t position = 0;
  std::string message;
};
/// Parses the longest expression at `position` and advances `position`. Throws DimSyntaxError.
Dim parse_dim_prefix(std::string_view text, std::size_t& position);
/// True if a symbol with this name prints without quotes.
bool is_plain_symbol(std::string_view name);
/// `text` in double quotes with \" \\ \n \t and \xHH escapes.
std::string quote(std::string_view text);
/// Reads what quote wrote, starting at the opening quote; throws DimSyntaxError.
std::string unquote_prefix(std::string_view text, std::size_t& position);

}  // namespace sinter::ir
