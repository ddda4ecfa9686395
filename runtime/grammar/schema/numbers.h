// SPDX-License-Identifier: Apache-2.0
// Numbers between bounds, as texts.
#pragma once

#include <optional>
#include <string>

#include "runtime/grammar/schema/rules.h"

namespace sinter::grammar {

/// Exact, as it is written.
struct Decimal {
  bool is_negative = false;
  std::string whole = "0", fraction;  // digits; no zeros in front, or behind
};

/// Of a number as JSON has it; of 1e18 and beyond none, which is no bound.
std::optional<Decimal> decimal_of(double value);
Decimal decimal_of(std::int64_t value);

struct Bound {
  Decimal value;
  bool is_exclusive = false;
};

struct NumberRange {
  bool is_integer = false;
  std::optional<Bound> least, most;
  int divisor = 1;  // of integers
};

/// Numbers of the range, with no more digits than a double has. Without bounds and a divisor other
/// than 1: of 18 digits in front of the point and an exponent of two.
Expr number_expr(const NumberRange& range, Rules& rules);

}  // namespace sinter::grammar
