// SPDX-License-Identifier: Apache-2.0
// Interval analysis of the values of a loop program.

#include <algorithm>
#include <cmath>

#include <sinter/float8.h>
#include <sinter/scalar_op.h>

#include "codegen/emit/approximations.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Margin added to exact ranges; the error of every approximation is smaller.
constexpr double kSlack = 1e-4;

ValueRange range(double low, double high) {
  ValueRange result;
  result.low = low;
  result.high = high;
  result.finite_bound = std::max(std::abs(low), std::abs(high));
  return result;
}

ValueRange widened(const ValueRange& r) {
  ValueRange result = r;
  result.low -= kSlack * std::abs(r.low);
  result.high += kSlack * std::abs(r.high);
  result.finite_bound *= 1 + kSlack;
  return result;
}

/// 0 * infinity counts as 0: its result is NaN, which ranges do not describe.
double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

ValueRange product(const ValueRange& a, const ValueRange& b) {
  const double corners[] = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low),
                            product(a.high, b.high)};
  ValueRange result = range(*std::min_element(std::begin(corners), std::end(corners)),
                            *std::max_element(std::begin(corners), std::end(corners)));
  result.finite_bound = product(a.finite_bound, b.finite_bound);
  return result;
}

ValueRange sum(const ValueRange& a, const ValueRange& b) {
  const auto known = [](double bound, double otherwise) {
    return std::isnan(bound) ? otherwise : bound;
  };
  ValueRange result = range(known(a.low + b.low, -kInfinity), known(a.high + b.high, kInfinity));
  result.finite_bound = a.finite_bound + b.finite_bound;
  return result;
}

ValueRange either(const ValueRange& a, const ValueRange& b) {
  ValueRange result = range(std::min(a.low, b.low), std::max(a.high, b.high));
  result.finite_bound = std::max(a.finite_bound, b.finite_bound);
  return result;
}

ValueRange of_type(DType type) {
  switch (type) {
    case DType::kBool: return range(0, 1);
    case DType::kInt8: return range(-128, 127);
    case DType::kUInt8: return range(0, 255);
    case DType::kInt16: return range(-32768, 32767);
    case DType::kUInt16: return range(0, 65535);
    case DType::kUInt32:
    case DType::kUInt64: return range(0, kInfinity);
    case DType::kFloat16: {
      ValueRange result;
      result.finite_bound = 65504;
      return result;
    }
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ: return range(-largest_float8(type), largest_float8(type));
    case DType::kFloat8E5M2: {
      ValueRange result;
      result.finite_bound = largest_float8(type);
      return result;
    }
    default: return {};
  }
}

/// The range of a monotonically increasing function.
template <typename F>
ValueRange rising(const ValueRange& a, F&& f) {
  return widened(range(f(a.low), f(a.high)));
}

class Finder {
 public:
  explicit Finder(const ProgramAnalysis& analysis) : analysis_(analysis) {
    for (std::size_t i = 0; i < analysis.instr_count(); ++i) ranges_.push_back(find(i));
  }
  std::vector<ValueRange> take() { return std::move(ranges_); }

 private:
  const ValueRange& arg(std::size_t i, std::size_t k) const {
    return ranges_[analysis_.instr(i).args[k]];
  }

  ValueRange find(std::size_t i) const {
    const auto& instr = analysis_.instr(i);
    switch (instr.kind) {
      case InstrKind::Load: {
        const auto& access = analysis_.access(instr.access);
        const ValueRange stored = of_type(analysis_.buffer_type(access.buffer));
        return access.guards.empty() ? stored : either(stored, range(access.fill, access.fill));
      }
      case InstrKind::Constant: {
        const double value = is_float(analysis_.type_of(i))
                                 ? instr.constant_float
                                 : static_cast<double>(instr.constant_int);
        return std::isnan(value) ? ValueRange{} : widened(range(value, value));
      }
      case InstrKind::Index:
      case InstrKind::Size: return range(0, kInfinity);
      case InstrKind::Reduce: return of_reduction(i);
      case InstrKind::Op: {
        const ValueRange result = of_operator(i);
        // Integers wrap on overflow.
        if (is_float(analysis_.type_of(i)) || result.finite_within(1e9)) return result;
        return of_type(analysis_.type_of(i));
      }
      default: return {};
    }
  }

  ValueRange of_reduction(std::size_t i) const {
    const ValueRange& element = arg(i, 0);
    switch (static_cast<Combine>(analysis_.instr(i).op)) {
      case Combine::kMax:
      case Combine::kMin:
        // An empty row gives the identity.
        return range(std::min(element.low, -kInfinity), std::max(element.high, kInfinity));
      case Combine::kSum:
        return range(element.low >= 0 ? 0 : -kInfinity, element.high <= 0 ? 0 : kInfinity);
      default: return {};
    }
  }

  /// True for a - max(a), where a belongs to the row of the maximum.
  bool is_below_maximum(std::size_t i) const {
    const auto& instr = analysis_.instr(i);
    const auto& greatest = analysis_.instr(instr.args[1]);
    return greatest.kind == InstrKind::Reduce &&
           static_cast<Combine>(greatest.op) == Combine::kMax && greatest.args[0] == instr.args[0];
  }

  ValueRange of_operator(std::size_t i) const {
    const auto& instr = analysis_.instr(i);
    switch (static_cast<ScalarOp>(instr.op)) {
      case ScalarOp::kAdd: return widened(sum(arg(i, 0), arg(i, 1)));
      case ScalarOp::kSub: {
        const ValueRange& b = arg(i, 1);
        ValueRange result = widened(sum(arg(i, 0), negated(b)));
        if (is_below_maximum(i)) result.high = std::min(result.high, 0.0);
        return result;
      }
      case ScalarOp::kMul: {
        ValueRange result = widened(product(arg(i, 0), arg(i, 1)));
        if (instr.args[0] == instr.args[1]) result.low = std::max(result.low, 0.0);
        return result;
      }
      case ScalarOp::kDiv: {
        const ValueRange& b = arg(i, 1);
        if (!is_float(analysis_.type_of(i)) || b.low <= 0) return {};
        return widened(product(arg(i, 0), range(1 / b.high, 1 / b.low)));
      }
      case ScalarOp::kReciprocal:
        if (arg(i, 0).low <= 0) return {};
        return widened(range(1 / arg(i, 0).high, 1 / arg(i, 0).low));
      case ScalarOp::kMin:
        return one_of(i, std::min(arg(i, 0).low, arg(i, 1).low),
                      std::min(arg(i, 0).high, arg(i, 1).high));
      case ScalarOp::kMax:
        return one_of(i, std::max(arg(i, 0).low, arg(i, 1).low),
                      std::max(arg(i, 0).high, arg(i, 1).high));
      case ScalarOp::kNeg: return negated(arg(i, 0));
      case ScalarOp::kAbs: return absolute(arg(i, 0));
      case ScalarOp::kSign: return range(-1, 1);
      case ScalarOp::kSqrt:
        return rising(arg(i, 0), [](double x) { return std::sqrt(std::max(x, 0.0)); });
      case ScalarOp::kRsqrt: return range(0, kInfinity);
      case ScalarOp::kExp: return rising(arg(i, 0), [](double x) { return std::exp(x); });
      case ScalarOp::kTanh: return rising(arg(i, 0), [](double x) { return std::tanh(x); });
      case ScalarOp::kErf: return rising(arg(i, 0), [](double x) { return std::erf(x); });
      case ScalarOp::kAtan: return rising(arg(i, 0), [](double x) { return std::atan(x); });
      case ScalarOp::kSin:
        // sin increases on [-pi/2, pi/2].
        if (arg(i, 0).within(-1.57, 1.57))
          return rising(arg(i, 0), [](double x) { return std::sin(x); });
        return widened(range(-1, 1));
      case ScalarOp::kCos: return widened(range(-1, 1));
      case ScalarOp::kSelect: return either(arg(i, 1), arg(i, 2));
      case ScalarOp::kCast: return analysis_.type_of(i) == DType::kBool ? range(0, 1) : of_cast(i);
      case ScalarOp::kToE4M3FN:
      case ScalarOp::kToE5M2:
      case ScalarOp::kToE4M3FNUZ:
      case ScalarOp::kToE5M2FNUZ:
        return of_type(*float8_rounded_to(static_cast<ScalarOp>(instr.op)));
      default: return yields_bool(static_cast<ScalarOp>(instr.op)) ? range(0, 1) : ValueRange{};
    }
  }

  /// The range [low, high] of a value that is one of the two operands.
  ValueRange one_of(std::size_t i, double low, double high) const {
    ValueRange result = range(low, high);
    result.finite_bound =
        std::min(result.finite_bound, std::max(arg(i, 0).finite_bound, arg(i, 1).finite_bound));
    return result;
  }

  ValueRange of_cast(std::size_t i) const {
    const DType to = analysis_.type_of(i);
    if (is_float(to)) return arg(i, 0);
    // The cast truncates and saturates, or wraps: it keeps the range if that fits the type.
    const ValueRange type = of_type(to);
    return arg(i, 0).within(std::max(type.low, -1e9), std::min(type.high, 1e9)) ? arg(i, 0) : type;
  }

  static ValueRange negated(const ValueRange& a) {
    ValueRange result = range(-a.high, -a.low);
    result.finite_bound = a.finite_bound;
    return result;
  }

  static ValueRange absolute(const ValueRange& a) {
    const double least = a.low > 0 ? a.low : a.high < 0 ? -a.high : 0;
    ValueRange result = range(least, std::max(std::abs(a.low), std::abs(a.high)));
    result.finite_bound = a.finite_bound;
    return result;
  }

  const ProgramAnalysis& analysis_;
  std::vector<ValueRange> ranges_;
};

}  // namespace

bool ValueRange::finite_within(double bound) const { return finite_bound <= bound; }

std::vector<ValueRange> find_value_ranges(const ProgramAnalysis& analysis) {
  return Finder(analysis).take();
}

}  // namespace sinter::codegen
