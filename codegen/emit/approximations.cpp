#include "codegen/emit/approximations.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include <sinter/float8.h>
#include <sinter/scalar_op.h>

#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::Precision;

namespace {

// Arguments of the forms "within one", with room for rounding; of the short sine and cosine.
constexpr double kOne = 1.001, kMostTurned = 1048576;
// Where the plain reciprocal instruction neither overflows nor meets denormal numbers.
constexpr double kSmall = 0x1p-100, kLarge = 0x1p100, kModest = 0x1p20;

const char* function_of(ScalarOp op, bool is_short, const ValueRange& argument) {
  const bool within_one = argument.within(-kOne, kOne);
  const bool turns = argument.finite_within(kMostTurned);
  switch (op) {
    case ScalarOp::kSin:
      if (within_one) return is_short ? "short_sine_within_one" : "sine_within_one";
      return is_short && turns ? "short_sine" : nullptr;
    case ScalarOp::kCos:
      if (within_one) return "cosine_within_one";
      return is_short && turns ? "short_cosine" : nullptr;
    case ScalarOp::kExp: return is_short ? "short_exponential" : nullptr;
    case ScalarOp::kTanh: return is_short ? "short_hyperbolic_tangent" : nullptr;
    case ScalarOp::kErf: return is_short ? "short_error_function" : nullptr;
    default: return nullptr;
  }
}

const char* saturated_rounding(DType type) {
  switch (type) {
    case DType::kFloat8E5M2: return "round_to_e5m2_saturated";
    case DType::kFloat8E4M3FNUZ: return "round_to_e4m3fnuz_saturated";
    case DType::kFloat8E5M2FNUZ: return "round_to_e5m2fnuz_saturated";
    default: return "round_to_e4m3fn_saturated";
  }
}

bool is_one(const InstrT& instr) {
  return instr.kind == InstrKind::Constant && instr.constant_float == 1;
}

bool is_near(const InstrT& instr, double value) {
  return instr.kind == InstrKind::Constant && std::abs(instr.constant_float - value) < 1e-6 * value;
}

bool is_op(const InstrT& instr, ScalarOp op) {
  return instr.kind == InstrKind::Op && static_cast<ScalarOp>(instr.op) == op;
}

/// x of 1 + erf(x / sqrt(2)), whose result the graph rounds to 16 bits.
std::optional<std::uint32_t> gelu_factor_argument(const ProgramAnalysis& analysis,
                                                  std::uint32_t value) {
  constexpr double kInverseRoot = 0.70710678118654752;
  const auto& sum = analysis.instr(value);
  if (!is_op(sum, ScalarOp::kAdd)) return std::nullopt;
  for (std::size_t k = 0; k < 2; ++k) {
    const auto& erf = analysis.instr(sum.args[k]);
    if (!is_one(analysis.instr(sum.args[1 - k])) || !is_op(erf, ScalarOp::kErf) ||
        erf.precision == Precision::Full)
      continue;
    const auto& scaled = analysis.instr(erf.args[0]);
    if (!is_op(scaled, ScalarOp::kMul)) continue;
    for (std::size_t s = 0; s < 2; ++s)
      if (is_near(analysis.instr(scaled.args[s]), kInverseRoot)) return scaled.args[1 - s];
  }
  return std::nullopt;
}

/// x if the product is that of x, 0.5 and 1 + erf(x / sqrt(2)), in any order.
std::optional<std::uint32_t> gelu_argument(const ProgramAnalysis& analysis, const InstrT& product) {
  for (std::size_t k = 0; k < 2; ++k) {
    const auto& inner = analysis.instr(product.args[k]);
    if (!is_op(inner, ScalarOp::kMul)) continue;
    const std::uint32_t factors[] = {product.args[1 - k], inner.args[0], inner.args[1]};
    for (std::size_t f = 0; f < 3; ++f) {
      const auto x = gelu_factor_argument(analysis, factors[f]);
      const std::uint32_t a = factors[(f + 1) % 3], b = factors[(f + 2) % 3];
      if (x && ((*x == a && is_near(analysis.instr(b), 0.5)) ||
                (*x == b && is_near(analysis.instr(a), 0.5))))
        return x;
    }
  }
  return std::nullopt;
}

}  // namespace

Approximations::Approximations(const ProgramAnalysis& analysis)
    : functions_(analysis.instr_count(), nullptr),
      live_(analysis.instr_count(), false),
      saturates_(analysis.instr_count(), false) {
  for (std::size_t i = 0; i < analysis.instr_count(); ++i)
    operands_.push_back(analysis.instr(i).args);
  if (!analysis.request().precise) {
    const std::vector<ValueRange> ranges = find_value_ranges(analysis);
    for (std::size_t i = 0; i < analysis.instr_count(); ++i)
      if (analysis.instr(i).kind == InstrKind::Op && analysis.type_of(i) == DType::kFloat32)
        choose(analysis, ranges, i);
  }
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    choose_rounding(analysis, i);
    choose_quantization(analysis, i);
    choose_store(analysis, i);
  }
  find_live(analysis);
}

/// Rounding of what is clamped to the type's numbers: hardware does both in one instruction.
void Approximations::choose_rounding(const ProgramAnalysis& analysis, std::size_t i) {
  const auto& instr = analysis.instr(i);
  const auto type = instr.kind == InstrKind::Op ? float8_rounded_to(static_cast<ScalarOp>(instr.op))
                                                : std::nullopt;
  if (!type || analysis.type_of(i) != DType::kFloat32) return;
  const double largest = largest_float8(*type);
  const auto is_bound = [&](std::uint32_t value, double bound) {
    const auto& constant = analysis.instr(value);
    return constant.kind == InstrKind::Constant && constant.constant_float == bound;
  };
  const auto& below = analysis.instr(instr.args[0]);
  if (!is_op(below, ScalarOp::kMin) || !is_bound(below.args[1], largest)) return;
  const auto& above = analysis.instr(below.args[0]);
  if (!is_op(above, ScalarOp::kMax) || !is_bound(above.args[1], -largest)) return;
  functions_[i] = saturated_rounding(*type);
  operands_[i] = {above.args[0]};
}

/// An integer of 8 bits made of what was rounded, maybe moved by a zero point, and clamped to the
/// type's numbers: a sum with a large number does both, where conversions take turns.
void Approximations::choose_quantization(const ProgramAnalysis& analysis, std::size_t i) {
  const DType type = analysis.type_of(i);
  const auto& cast = analysis.instr(i);
  if (!is_op(cast, ScalarOp::kCast) || (type != DType::kInt8 && type != DType::kUInt8) ||
      analysis.type_of(cast.args[0]) != DType::kFloat32)
    return;
  const bool is_signed = type == DType::kInt8;
  const auto inside = [&](std::uint32_t value, ScalarOp op, double bound) {
    std::optional<std::uint32_t> other;
    const auto& instr = analysis.instr(value);
    if (!is_op(instr, op)) return other;
    for (std::size_t k = 0; k < 2; ++k) {
      const auto& constant = analysis.instr(instr.args[k]);
      if (constant.kind == InstrKind::Constant && constant.constant_float == bound)
        other = instr.args[1 - k];
    }
    return other;
  };
  const double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  std::optional<std::uint32_t> value;
  for (const bool low_first : {true, false}) {
    const auto outer = inside(cast.args[0], low_first ? ScalarOp::kMin : ScalarOp::kMax,
                              low_first ? high : low);
    if (outer && !value)
      value = inside(*outer, low_first ? ScalarOp::kMax : ScalarOp::kMin, low_first ? low : high);
  }
  if (!value) return;
  const auto& rounded = analysis.instr(*value);
  const auto is_round = [&](std::uint32_t v) {
    return is_op(analysis.instr(v), ScalarOp::kRound);
  };
  const auto is_whole = [&](std::uint32_t v) {
    const auto& constant = analysis.instr(v);
    return constant.kind == InstrKind::Constant &&
           constant.constant_float == std::round(constant.constant_float);
  };
  if (is_round(*value))
    value = rounded.args[0];
  else if (!is_op(rounded, ScalarOp::kAdd) ||
           !((is_round(rounded.args[0]) && is_whole(rounded.args[1])) ||
             (is_round(rounded.args[1]) && is_whole(rounded.args[0]))))
    return;
  functions_[i] = is_signed ? "rounded_to_i8" : "rounded_to_u8";
  operands_[i] = {*value};
}

/// A store rounds to its type anyway.
void Approximations::choose_store(const ProgramAnalysis& analysis, std::size_t i) {
  if (analysis.instr(i).kind != InstrKind::Store) return;
  const std::uint32_t value = operands_[i][0];
  const auto& instr = analysis.instr(value);
  if (instr.kind != InstrKind::Op || analysis.type_of(value) != DType::kFloat32 ||
      float8_rounded_to(static_cast<ScalarOp>(instr.op)) != analysis.memory_type(i))
    return;
  saturates_[i] = functions_[value] != nullptr;
  operands_[i] = operands_[value];
}

int Approximations::length(std::size_t i) const {
  constexpr int kShort = 6, kGelu = 10;
  return std::string_view(functions_[i]) == "short_gelu" ? kGelu : kShort;
}

void Approximations::choose(const ProgramAnalysis& analysis, const std::vector<ValueRange>& ranges,
                            std::size_t i) {
  const auto& instr = analysis.instr(i);
  const auto op = static_cast<ScalarOp>(instr.op);
  if (op == ScalarOp::kDiv) {
    const ValueRange &a = ranges[instr.args[0]], &b = ranges[instr.args[1]];
    if (b.low >= kSmall && (b.high <= kLarge || a.within(-kModest, kModest)))
      functions_[i] = "divide_by_normal";
  } else if (op == ScalarOp::kReciprocal) {
    if (ranges[instr.args[0]].low >= kSmall) functions_[i] = "reciprocal_of_normal";
  } else if (op == ScalarOp::kMul) {
    if (const auto argument = gelu_argument(analysis, instr)) {
      functions_[i] = "short_gelu";
      operands_[i] = {*argument};
    }
  } else if (op == ScalarOp::kAdd) {
    // 1 + f(x), whose tail the sum would cancel.
    for (std::size_t k = 0; k < 2; ++k) {
      const auto& inner = analysis.instr(instr.args[k]);
      if (!is_one(analysis.instr(instr.args[1 - k])) || inner.kind != InstrKind::Op ||
          inner.precision == Precision::Full)
        continue;
      const auto f = static_cast<ScalarOp>(inner.op);
      if (f != ScalarOp::kErf && f != ScalarOp::kTanh) continue;
      functions_[i] = f == ScalarOp::kErf ? "short_one_plus_error_function"
                                          : "short_one_plus_hyperbolic_tangent";
      operands_[i] = inner.args;
      return;
    }
  } else if (instr.args.size() == 1 && analysis.type_of(instr.args[0]) == DType::kFloat32) {
    functions_[i] = function_of(op, instr.precision != Precision::Full, ranges[instr.args[0]]);
  }
}

void Approximations::find_live(const ProgramAnalysis& analysis) {
  for (std::size_t i = analysis.instr_count(); i-- > 0;) {
    const auto& instr = analysis.instr(i);
    if (plan::is_store(instr.kind)) live_[i] = true;
    if (!live_[i]) continue;
    for (const std::uint32_t operand : operands_[i]) live_[operand] = true;
    if (!plan::is_memory(instr.kind)) continue;
    for (const auto& gather : analysis.access(instr.access).gathers) live_[gather.value()] = true;
  }
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// What an operator's result can lie outside of the exact range: any approximation's error is less.
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

/// 0 * infinity is NaN, which no range speaks of; next to it the product is as small as one likes.
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
  const double low = a.low + b.low, high = a.high + b.high;
  ValueRange result =
      range(std::isnan(low) ? -kInfinity : low, std::isnan(high) ? kInfinity : high);
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

/// Of a function that rises with its argument.
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
        // Integers wrap.
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
        // An empty row has the identity.
        return range(std::min(element.low, -kInfinity), std::max(element.high, kInfinity));
      case Combine::kSum:
        return range(element.low >= 0 ? 0 : -kInfinity, element.high <= 0 ? 0 : kInfinity);
      default: return {};
    }
  }

  /// a - max(a) over the row that a belongs to.
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
        // Rises on [-pi/2, pi/2].
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

  /// One of two operands' values, from low to high.
  ValueRange one_of(std::size_t i, double low, double high) const {
    ValueRange result = range(low, high);
    result.finite_bound =
        std::min(result.finite_bound, std::max(arg(i, 0).finite_bound, arg(i, 1).finite_bound));
    return result;
  }

  ValueRange of_cast(std::size_t i) const {
    const DType to = analysis_.type_of(i);
    if (is_float(to)) return arg(i, 0);
    // Truncated and saturated, or wrapped: what fits stays.
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
