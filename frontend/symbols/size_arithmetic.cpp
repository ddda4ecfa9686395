// SPDX-License-Identifier: Apache-2.0
#include "frontend/symbols/size_arithmetic.h"

#include <cmath>

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Ranges;

// Maximum number of symbols and functions in a size.
constexpr int kMaxDimSize = 256;

/// a < b (or a == b), if the answer is the same for all values of the symbols.
enum class Comparison { kLess, kEqual };
std::optional<bool> compare(Comparison comparison, const Dim& a, const Dim& b,
                            const Ranges& ranges) {
  const Dim difference = a - b;
  const auto low = ir::lower_bound(difference, ranges);
  const auto high = ir::upper_bound(difference, ranges);
  if (comparison == Comparison::kLess) {
    if (high && *high < 0) return true;
    if (low && *low >= 0) return false;
    return std::nullopt;
  }
  if (difference == Dim(0)) return true;
  if ((low && *low > 0) || (high && *high < 0)) return false;
  return std::nullopt;
}

std::optional<Dim> truth(std::optional<bool> value, bool negate = false) {
  if (!value) return std::nullopt;
  return Dim(*value != negate ? 1 : 0);
}

std::optional<Dim> divide(const Dim& a, const Dim& b, const Ranges& ranges) {
  if (a.is_constant() && b.is_constant()) {
    if (b.value() == 0 || (a.value() == INT64_MIN && b.value() == -1)) return std::nullopt;
    return Dim(a.value() / b.value());
  }
  // Integer division truncates, which equals floor if nothing is negative.
  const auto low = ir::lower_bound(a, ranges);
  const auto divisor = ir::lower_bound(b, ranges);
  if (low && *low >= 0 && divisor && *divisor >= 1) return ir::floor_div(a, b, ranges);
  if (b.is_constant() && b.value() != 0) return ir::divide_exactly(a, b);
  return std::nullopt;
}

std::optional<Dim> modulo(const Dim& a, const Dim& b, const Ranges& ranges, bool truncated) {
  const auto divisor = ir::lower_bound(b, ranges);
  if (!divisor || *divisor < 1) return std::nullopt;
  if (truncated) {
    const auto low = ir::lower_bound(a, ranges);
    if (!low || *low < 0) return std::nullopt;
  }
  return ir::mod(a, b, ranges);
}

std::optional<Dim> power(const Dim& base, const Dim& exponent) {
  if (!exponent.is_constant() || exponent.value() < 0 || exponent.value() > 8) return std::nullopt;
  Dim result(1);
  for (std::int64_t i = 0; i < exponent.value(); ++i) result = result * base;
  return result;
}

// Products of a few stay far from overflow, and below the integers that float32 cannot represent.
constexpr std::int64_t kMostDenominator = 1 << 20;
constexpr double kMostNumerator = 1 << 24;

std::optional<SizeRatio> reduced(SizeRatio ratio) {
  for (std::int64_t divisor = 2; ratio.denominator > 1 && divisor <= ratio.denominator;) {
    if (ratio.denominator % divisor != 0 || !ir::is_multiple_of(ratio.numerator, divisor)) {
      ++divisor;
      if (divisor > 64) break;
      continue;
    }
    ratio.numerator = *ir::divide_exactly(ratio.numerator, Dim(divisor));
    ratio.denominator /= divisor;
  }
  if (ratio.denominator > kMostDenominator) return std::nullopt;
  return ratio;
}

std::optional<SizeRatio> quotient(const SizeRatio& a, const SizeRatio& b) {
  if (b.numerator.is_constant()) {
    const std::int64_t divisor = b.numerator.value();
    if (divisor <= 0) return std::nullopt;
    return reduced({a.numerator * Dim(b.denominator), a.denominator * divisor});
  }
  const auto exact = ir::divide_exactly(a.numerator * Dim(b.denominator), b.numerator);
  if (!exact) return std::nullopt;
  return reduced({*exact, a.denominator});
}

SizeRatio sum(const SizeRatio& a, const SizeRatio& b, int sign) {
  return {a.numerator * Dim(b.denominator) + Dim(sign) * b.numerator * Dim(a.denominator),
          a.denominator * b.denominator};
}

}  // namespace

bool is_manageable(const Dim& dim) { return !ir::is_longer(dim, kMaxDimSize); }

std::optional<Dim> size_arithmetic(std::string_view op, const std::vector<Dim>& x, DType from,
                                   DType to, const Ranges& ranges) {
  const auto is_nonzero = [&](const Dim& d) { return compare(Comparison::kEqual, d, 0, ranges); };
  if (op == "Add") return x[0] + x[1];
  if (op == "Sub") return x[0] - x[1];
  if (op == "Mul") return x[0] * x[1];
  if (op == "Div") return divide(x[0], x[1], ranges);
  if (op == "Mod") return modulo(x[0], x[1], ranges, false);
  if (op == "Fmod") return modulo(x[0], x[1], ranges, true);
  if (op == "Min") return ir::min(x[0], x[1], ranges);
  if (op == "Max") return ir::max(x[0], x[1], ranges);
  if (op == "Relu") return ir::max(x[0], 0, ranges);
  if (op == "Pow") return power(x[0], x[1]);
  if (op == "Square") return x[0] * x[0];
  if (op == "Neg") return Dim(0) - x[0];
  if (op == "Abs") {
    const auto negative = compare(Comparison::kLess, x[0], 0, ranges);
    if (!negative) return std::nullopt;
    return *negative ? Dim(0) - x[0] : x[0];
  }
  if (op == "Sign") {
    if (compare(Comparison::kLess, x[0], 0, ranges) == true) return Dim(-1);
    if (compare(Comparison::kLess, 0, x[0], ranges) == true) return Dim(1);
    return std::nullopt;
  }
  if (op == "Equal") return truth(compare(Comparison::kEqual, x[0], x[1], ranges));
  if (op == "NotEqual") return truth(compare(Comparison::kEqual, x[0], x[1], ranges), true);
  if (op == "Less") return truth(compare(Comparison::kLess, x[0], x[1], ranges));
  if (op == "Greater") return truth(compare(Comparison::kLess, x[1], x[0], ranges));
  if (op == "LessOrEqual") return truth(compare(Comparison::kLess, x[1], x[0], ranges), true);
  if (op == "GreaterOrEqual") return truth(compare(Comparison::kLess, x[0], x[1], ranges), true);
  if (op == "Not") return Dim(1) - x[0];
  if (op == "And") return x[0] * x[1];
  if (op == "Or") return x[0] + x[1] - x[0] * x[1];
  if (op == "Where") {
    if (x[0].is_constant()) return x[0].value() != 0 ? x[1] : x[2];
    return std::nullopt;
  }
  if (op == "Cast") {
    if (to == DType::kBool && from != DType::kBool) return truth(is_nonzero(x[0]), true);
    return x[0];
  }
  return std::nullopt;
}

std::optional<SizeRatio> ratio_of(double value) {
  for (std::int64_t denominator = 1; denominator <= kMostDenominator; denominator *= 2) {
    const double numerator = value * static_cast<double>(denominator);
    if (!(std::fabs(numerator) <= kMostNumerator)) return std::nullopt;
    if (numerator == std::floor(numerator))
      return SizeRatio{static_cast<std::int64_t>(numerator), denominator};
  }
  return std::nullopt;
}

std::optional<SizeRatio> ratio_arithmetic(std::string_view op, const std::vector<SizeRatio>& x,
                                          const ir::Ranges& ranges) {
  if (op == "Cast") return x[0];
  if (op == "Ceil")
    return SizeRatio{ir::ceil_div(x[0].numerator, Dim(x[0].denominator), ranges), 1};
  if (op == "Floor")
    return SizeRatio{ir::floor_div(x[0].numerator, Dim(x[0].denominator), ranges), 1};
  if (op == "Div") return quotient(x[0], x[1]);
  if (op == "Mul")
    return reduced({x[0].numerator * x[1].numerator, x[0].denominator * x[1].denominator});
  if (op == "Add") return reduced(sum(x[0], x[1], 1));
  if (op == "Sub") return reduced(sum(x[0], x[1], -1));
  return std::nullopt;
}

std::optional<Dim> truncated(const SizeRatio& x, const ir::Ranges& ranges) {
  if (x.denominator == 1) return x.numerator;
  const auto low = ir::lower_bound(x.numerator, ranges);
  if (!low || *low < 0) return std::nullopt;
  return ir::floor_div(x.numerator, Dim(x.denominator), ranges);
}

}  // namespace sinter::frontend
