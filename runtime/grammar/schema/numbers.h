// SPDX-License-Identifier: Apache-2.0
// The decimal texts of numbers between bounds.
#pragma once

#include <optional>
#include <string>

#include "runtime/grammar/schema/rules.h"

namespace sinter::grammar {

/// An exact decimal number.
struct Decimal {
  bool is_negative = false;
  std::string whole = "0", fraction;  // digits; no leading zeros in `whole`, no trailing zeros in
                                      // `fraction`
};

/// Converts a JSON number; nullopt from 1e18 on, where a bound does not matter.
std::optional<Decimal> decimal_of(double value);
Decimal decimal_of(std::int64_t value);

struct Bound {
  Decimal value;
  bool is_exclusive = false;
};

struct NumberRange {
  bool is_integer = false;
  std::optional<Bound> least, most;
  int divisor = 1;  // for integers
};

/// Numbers of the range, with no more digits than a double preserves. Without bounds and with
/// divisor 1: up to 18 integer digits and a two-digit exponent.
Expr number_expr(const NumberRange& range, Rules& rules);

}  // namespace sinter::grammar
