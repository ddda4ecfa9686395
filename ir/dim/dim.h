// SPDX-License-Identifier: Apache-2.0
// Symbolic integers: the dimensions of tensors and the index arithmetic of views.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::ir {

class Dim;

/// Bounds of a symbol, both inclusive.
struct Range {
  std::int64_t min = 1;
  std::int64_t max = INT64_MAX;
  /// A tighter, symbolic upper bound (an index symbol's is its extent minus one), or null.
  std::shared_ptr<const Dim> symbolic_max;
  /// The value is computed by the run (see ir/ops/extent.cpp).
  bool from_data = false;
  friend bool operator==(const Range& a, const Range& b);
};
using Ranges = std::map<std::string, Range, std::less<>>;
using Bindings = std::map<std::string, std::int64_t, std::less<>>;

/// An opaque factor of a Dim's terms.
struct DimAtom;

/// An integer: a constant, or a polynomial with integer coefficients over symbols and opaque
/// functions (floor division, minimum, maximum) of other Dims.
///
/// Dims are immutable and in normal form (sorted terms, like terms collected): equal
/// polynomials compare equal, batch*seq == seq*batch. Overflow of int64 throws
/// Error(kInvalidModel).
class Dim {
 public:
  /// A product of atoms, sorted; empty for the constant term.
  using Monomial = std::vector<std::shared_ptr<const DimAtom>>;
  struct Term {
    Monomial factors;
    std::int64_t coefficient = 0;
  };

  Dim(std::int64_t value = 0);  // NOLINT: implicit on purpose, shapes are written {batch, 384}
  Dim(int value) : Dim(static_cast<std::int64_t>(value)) {}  // NOLINT
  static Dim symbol(std::string_view name);

  bool is_constant() const;
  /// The value of a constant; throws Error(kInternal) otherwise.
  std::int64_t value() const;
  /// The name, if this is a single symbol with coefficient one.
  std::optional<std::string> as_symbol() const;
  /// Terms in normal form; the constant zero has none.
  const std::vector<Term>& terms() const { return *terms_; }

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  Dim& operator+=(const Dim& other) { return *this = *this + other; }
  Dim& operator*=(const Dim& other) { return *this = *this * other; }
  friend bool operator==(const Dim& a, const Dim& b);
  /// A total order (structural, not numeric), for keys.
  friend std::strong_ordering operator<=>(const Dim& a, const Dim& b);
  /// Consistent with ==, within one process.
  friend std::size_t hash_of(const Dim& dim);

  /// All symbols, sorted and unique.
  std::vector<std::string> symbols() const;
  /// The value under `bindings`; throws Error(kUsage) for an unbound symbol, kInvalidModel for
  /// overflow or division by zero.
  std::int64_t evaluate(const Bindings& bindings) const;
  /// Replaces symbols by Dims, simultaneously. Simplifies only by identities of all integers; see
  /// simplify() for more.
  Dim substitute(const std::map<std::string, Dim, std::less<>>& replacements) const;
  /// "384", "batch*seq + 2", "floordiv(seq, 2)". parse_dim() is the inverse.
  std::string to_string() const;

 private:
  friend struct DimBuilder;
  std::shared_ptr<const std::vector<Term>> terms_;
};

/// An opaque factor: a symbol, or a function of two Dims that no polynomial expresses.
struct DimAtom {
  enum class Kind { kSymbol, kFloorDiv, kMin, kMax };
  Kind kind = Kind::kSymbol;
  std::string name;  // kSymbol
  Dim a, b;          // the others
};

/// floor(a / b). Divides exactly if the polynomials allow it ((6*n) / 2 = 3*n). Otherwise splits
/// off the terms that divide, and drops a remainder proved to be in [0, b) under `ranges`;
/// otherwise returns an opaque term. Symbols not in `ranges` are >= 1, index symbols "$..." >= 0; a
/// symbol's range may have min 0. The proof replaces symbols by their symbolic_max: with i < S,
/// (b*S + i) / S = b for every S.
Dim floor_div(const Dim& a, const Dim& b, const Ranges& ranges = {});
/// a - b * floor_div(a, b).
Dim mod(const Dim& a, const Dim& b, const Ranges& ranges = {});
/// ceil(a / b).
Dim ceil_div(const Dim& a, const Dim& b, const Ranges& ranges = {});
/// The smaller (larger) of two; one of the operands if `ranges` decide.
Dim min(const Dim& a, const Dim& b, const Ranges& ranges = {});
Dim max(const Dim& a, const Dim& b, const Ranges& ranges = {});

/// Rebuilds `dim`, simplifying divisions, minima and maxima under `ranges`.
Dim simplify(const Dim& dim, const Ranges& ranges);

/// a / b if the division is exact for every value of the symbols, as a polynomial identity.
std::optional<Dim> divide_exactly(const Dim& a, const Dim& b);
/// True only if a is a multiple of `divisor` for every value of the symbols.
bool is_multiple_of(const Dim& a, std::int64_t divisor);
/// A constant lower (upper) bound of `a`, if one is known under `ranges`.
std::optional<std::int64_t> lower_bound(const Dim& a, const Ranges& ranges = {});
std::optional<std::int64_t> upper_bound(const Dim& a, const Ranges& ranges = {});
/// True only if a <= b is proven for all values in `ranges`.
bool proves_le(const Dim& a, const Dim& b, const Ranges& ranges = {});
/// True if one of `dims` has a symbol whose value only the run knows.
bool is_from_data(std::span<const Dim> dims, const Ranges& ranges);
/// An upper bound of `a` that the inputs' shapes determine: symbols from data are replaced by their
/// bounds. Throws Error(kUnsupported) that names a symbol without bound.
Dim largest(const Dim& a, const Ranges& ranges);
/// The range of an index over `extent` elements: [0, extent - 1].
Range index_range(const Dim& extent, const Ranges& ranges);

/// True if `dim` contains more than `most` symbols and functions.
bool is_longer(const Dim& dim, int most);

/// Parses to_string()'s form; throws Error(kInvalidModel) with the position.
Dim parse_dim(std::string_view text);

using Shape = std::vector<Dim>;
/// Axes, a permutation of axes, or a constant shape.
using Ints = std::vector<std::int64_t>;

/// Product of the dimensions; one for a scalar.
Dim element_count(const Shape& shape);
/// "[batch, seq, 384]".
std::string to_string(const Shape& shape);
/// Row-major strides in elements.
std::vector<Dim> contiguous_strides(const Shape& shape);
/// Row-major position of `index` in `shape`.
Dim linearize(std::span<const Dim> index, const Shape& shape);

}  // namespace sinter::ir
