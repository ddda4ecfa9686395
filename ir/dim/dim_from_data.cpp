// SPDX-License-Identifier: Apache-2.0
// Sizes that only the run knows, and their bounds.
#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim.h"

namespace sinter::ir {
namespace {

const Range* range_from_data(const std::string& symbol, const Ranges& ranges) {
  const auto known = ranges.find(symbol);
  return known != ranges.end() && known->second.from_data ? &known->second : nullptr;
}

/// Interval bounds over the structure of an expression.
class Bounder {
 public:
  explicit Bounder(const Ranges& ranges) : ranges_(ranges) {}

  Dim bound(const Dim& a, bool largest) const {
    if (!is_from_data({&a, 1}, ranges_)) return a;
    Dim sum;
    for (const Dim::Term& term : a.terms()) {
      Dim product(term.coefficient);
      const bool up = largest == (term.coefficient > 0);
      for (const auto& atom : term.factors) {
        const Dim factor = bound(*atom, up);
        if (term.factors.size() > 1 && lower_bound(factor, ranges_).value_or(-1) < 0)
          throw Error(ErrorCode::kUnsupported,
                      fmt::format("no bound of the size {} is known: '{}' in it may be negative",
                                  a.to_string(), factor.to_string()));
        product *= factor;
      }
      sum += product;
    }
    return sum;
  }

 private:
  Dim bound(const DimAtom& atom, bool largest) const {
    switch (atom.kind) {
      case DimAtom::Kind::kSymbol: return bound(atom.name, largest);
      case DimAtom::Kind::kMin: return min(bound(atom.a, largest), bound(atom.b, largest), ranges_);
      case DimAtom::Kind::kMax: return max(bound(atom.a, largest), bound(atom.b, largest), ranges_);
      case DimAtom::Kind::kFloorDiv: break;
    }
    // Divisors of sizes are positive.
    return floor_div(bound(atom.a, largest), max(bound(atom.b, !largest), 1, ranges_), ranges_);
  }

  Dim bound(const std::string& symbol, bool largest) const {
    const Range* range = range_from_data(symbol, ranges_);
    if (range == nullptr) return Dim::symbol(symbol);
    if (!largest) return range->min;
    if (range->symbolic_max) return bound(*range->symbolic_max, true);
    if (range->max == INT64_MAX)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the size '{0}' follows from data and has no bound: give it one with "
                              "--bound '{0}=N'",
                              symbol));
    return range->max;
  }

  const Ranges& ranges_;
};

}  // namespace

bool is_from_data(std::span<const Dim> dims, const Ranges& ranges) {
  return std::ranges::any_of(dims, [&](const Dim& dim) {
    if (dim.is_constant()) return false;
    return std::ranges::any_of(dim.symbols(), [&](const std::string& symbol) {
      return range_from_data(symbol, ranges) != nullptr;
    });
  });
}

Dim largest(const Dim& a, const Ranges& ranges) {
  try {
    return Bounder(ranges).bound(a, true);
  } catch (const Error&) {
    // Products of differences: a number, if the ranges are numeric.
    if (const auto most = upper_bound(a, ranges)) return *most;
    throw;
  }
}

}  // namespace sinter::ir
