#include "frontend/symbols/size_ratios.h"

#include <cmath>

namespace sinter::frontend {
namespace {

using ir::Dim;

// Products of some of them stay far from overflow, and from where float32 has no odd integers.
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
