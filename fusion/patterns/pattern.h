// SPDX-License-Identifier: Apache-2.0
// Patterns over graphs, written as expressions.
//
//   "x * 0.5 * (1 + Erf(x * 0.70710678))"
//
//   x, scale     a value; the same name is the same value
//   $eps         a constant whose elements are all equal, any value
//   0.5          a constant of that value
//   Op(a, b)     an operator of the IR
//   a + b, a * b matched up to order and grouping; constants among the terms are collected first,
//                and x / 2 is x * 0.5, Square(x) and Pow(x, 2) are x * x
//   a - b        Sub
//   a / b        a * Inverse(b)
//   Inverse(a)   1 / a in any spelling
//   Rsqrt(a)     1 / sqrt(a) in any spelling
//   RowMean(a), RowSum(a), RowMax(a)
//                a reduction over the pattern's axes, read back at its own row
//
// Views between operators (reshapes, expansions, transposes) are followed element by element, casts
// between float types are looked through: see matcher.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinter::fusion {

struct Pattern {
  enum class Kind { kVariable, kAnyConstant, kNumber, kCall, kSum, kProduct };
  Kind kind = Kind::kVariable;
  std::string name;           // name of the variable, constant or operator
  double number = 0;          // kNumber: its value; kSum: constant term; kProduct: constant factor
  std::vector<Pattern> args;  // kCall: operands; kSum, kProduct: non-constant parts
};

/// Throws Error(kInternal) with the position: patterns are part of the code.
Pattern parse_pattern(std::string_view text);

/// An idiom: where `pattern` matches, `replacement` (an operator of the IR with variables or
/// numbers as operands) computes the same. Its attributes "axis", "axes", "keepdims" and "epsilon",
/// if it has them, come from the reductions' axes, the root's rank and $eps. A pattern whose
/// variables are all inside reductions is matched at a row's result.
struct Idiom {
  std::string_view name;
  std::string_view pattern;
  std::string_view replacement;
};
/// All idioms; the first that matches a node is used.
const std::vector<Idiom>& idioms();

}  // namespace sinter::fusion
