// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/approximations.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include <sinter/float8.h>
#include <sinter/scalar_op.h>

#include "codegen/emit/print_instr.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::Precision;

namespace {

// Argument limits of the "within one" forms, with room for rounding, and of the short sine and
// cosine.
constexpr double kOne = 1.001, kMostTurned = 1048576;
// Range in which the plain reciprocal instruction neither overflows nor meets subnormals.
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

/// True if every target rounds the exact result once, to nearest.
bool is_rounded_once(ScalarOp op) {
  switch (op) {
    case ScalarOp::kDiv:
    case ScalarOp::kPow:
    case ScalarOp::kSqrt:
    case ScalarOp::kRsqrt:
    case ScalarOp::kReciprocal:
    case ScalarOp::kExp:
    case ScalarOp::kExpm1:
    case ScalarOp::kLog:
    case ScalarOp::kLog1p:
    case ScalarOp::kErf:
    case ScalarOp::kTanh:
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kAtan: return false;
    default: return true;
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

/// Conversion of a float32, rounding to nearest even.
const char* rounded_conversion(DType type) {
  switch (type) {
    case DType::kInt8: return "convert_rounded<i8>";
    case DType::kUInt8: return "convert_rounded<u8>";
    case DType::kInt16: return "convert_rounded<i16>";
    case DType::kUInt16: return "convert_rounded<u16>";
    case DType::kInt32: return "convert_rounded<i32>";
    case DType::kUInt32: return "convert_rounded<u32>";
    default: return nullptr;
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

/// x if `value` is 1 + erf(x / sqrt(2)) and the graph rounds the result to 16 bits.
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

/// True for each value that every path to a store rounds to fp8, directly or after scaling or
/// clamping.
std::vector<bool> find_rounded_to_float8(const ProgramAnalysis& analysis) {
  const std::size_t count = analysis.instr_count();
  std::vector<bool> is_used(count, false), is_seen(count, false), result(count, false);
  for (std::size_t i = count; i-- > 0;) {
    const auto& instr = analysis.instr(i);
    const auto op = static_cast<ScalarOp>(instr.op);
    const bool rounds = instr.kind == InstrKind::Op && float8_rounded_to(op).has_value();
    const bool scales = is_op(instr, ScalarOp::kMul) || is_op(instr, ScalarOp::kDiv) ||
                        is_op(instr, ScalarOp::kQuotient) || is_op(instr, ScalarOp::kMin) ||
                        is_op(instr, ScalarOp::kMax);
    result[i] = is_used[i] && !is_seen[i];
    for (std::size_t k = 0; k < instr.args.size(); ++k) {
      is_used[instr.args[k]] = true;
      if (!rounds && !(scales && result[i] && (k == 0 || is_op(instr, ScalarOp::kMul))))
        is_seen[instr.args[k]] = true;
    }
    if (!plan::is_memory(instr.kind)) continue;
    for (const auto& gather : analysis.access(instr.access).gathers) is_seen[gather.value()] = true;
  }
  return result;
}

/// x if `product` is x * 0.5 * (1 + erf(x / sqrt(2))), in any order.
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
      saturates_(analysis.instr_count(), false),
      by_inverse_(analysis.instr_count(), false) {
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    operands_.push_back(analysis.instr(i).args);
    ops_.push_back(static_cast<ScalarOp>(analysis.instr(i).op));
  }
  if (!analysis.request().precise) {
    find_approximate(analysis);
    const std::vector<ValueRange> ranges = find_value_ranges(analysis);
    const std::vector<bool> rounded_to_float8 = find_rounded_to_float8(analysis);
    for (std::size_t i = 0; i < analysis.instr_count(); ++i)
      if (analysis.instr(i).kind == InstrKind::Op && analysis.type_of(i) == DType::kFloat32)
        choose(analysis, ranges, rounded_to_float8[i], i);
  }
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    choose_rounding(analysis, i);
    choose_quantization(analysis, i);
    choose_store(analysis, i);
  }
  find_live(analysis);
}

/// Marks as approximate: float32 sums (the kernel chooses their order), functions that only have
/// error bounds, and whatever depends on these. Their kQuotient becomes a kDiv.
void Approximations::find_approximate(const ProgramAnalysis& analysis) {
  std::vector<bool> approximate(analysis.instr_count(), false);
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    if (analysis.type_of(i) != DType::kFloat32) continue;
    const bool computes = instr.kind == InstrKind::Op || instr.kind == InstrKind::Reduce ||
                          instr.kind == InstrKind::Scan;
    const bool sums = computes && instr.kind != InstrKind::Op &&
                      static_cast<Combine>(instr.op) != Combine::kMax &&
                      static_cast<Combine>(instr.op) != Combine::kMin;
    approximate[i] = sums || (instr.kind == InstrKind::Op && !is_rounded_once(ops_[i])) ||
                     (computes && std::ranges::any_of(instr.args, [&](std::uint32_t arg) {
                        return bool{approximate[arg]};
                      }));
    if (instr.kind == InstrKind::Op && ops_[i] == ScalarOp::kQuotient && approximate[instr.args[0]])
      ops_[i] = ScalarOp::kDiv;
  }
}

/// Fuses a clamp with fp8 rounding, and rounding with an integer conversion: the hardware does both
/// in one instruction.
void Approximations::choose_rounding(const ProgramAnalysis& analysis, std::size_t i) {
  const auto& instr = analysis.instr(i);
  if (is_op(instr, ScalarOp::kCast)) {
    const auto& rounded = analysis.instr(instr.args[0]);
    const char* function = rounded_conversion(analysis.type_of(i));
    if (function == nullptr || !is_op(rounded, ScalarOp::kRound) ||
        analysis.type_of(instr.args[0]) != DType::kFloat32)
      return;
    functions_[i] = function;
    operands_[i] = rounded.args;
    return;
  }
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

/// Fuses rounding, an optional zero point, the clamp and the conversion to an 8-bit integer. Adding
/// 1.5 * 2^23 rounds to an integer; conversion instructions are slower.
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
  std::optional<std::uint32_t> clamped;
  for (const bool low_first : {true, false}) {
    const auto outer =
        inside(cast.args[0], low_first ? ScalarOp::kMin : ScalarOp::kMax, low_first ? high : low);
    if (outer && !clamped)
      clamped = inside(*outer, low_first ? ScalarOp::kMax : ScalarOp::kMin, low_first ? low : high);
  }
  const std::uint32_t value = clamped.value_or(cast.args[0]);
  const auto& rounded = analysis.instr(value);
  // With larger zero points the sum would not be exact.
  constexpr double kMostZero = 1 << 16;
  const auto is_round = [&](std::uint32_t v) { return is_op(analysis.instr(v), ScalarOp::kRound); };
  const auto is_zero_point = [&](std::uint32_t v) {
    const auto& constant = analysis.instr(v);
    return constant.kind == InstrKind::Constant &&
           constant.constant_float == std::round(constant.constant_float) &&
           std::abs(constant.constant_float) <= kMostZero;
  };
  if (is_round(value)) {
    operands_[i] = rounded.args;
  } else {
    if (!is_op(rounded, ScalarOp::kAdd)) return;
    const std::size_t k = is_round(rounded.args[0]) ? 0 : 1;
    if (!is_round(rounded.args[k]) || !is_zero_point(rounded.args[1 - k])) return;
    operands_[i] = {analysis.instr(rounded.args[k]).args[0], rounded.args[1 - k]};
  }
  functions_[i] = is_signed ? "rounded_to_i8" : "rounded_to_u8";
}

/// The store rounds to its type; an explicit rounding before it is redundant.
void Approximations::choose_store(const ProgramAnalysis& analysis, std::size_t i) {
  const auto& store = analysis.instr(i);
  if (store.kind != InstrKind::Store &&
      (store.kind != InstrKind::Scatter || store.op != plan::kScatterReplaces))
    return;
  const std::uint32_t value = operands_[i][0];
  const auto& instr = analysis.instr(value);
  if (instr.kind != InstrKind::Op || analysis.type_of(value) != DType::kFloat32 ||
      float8_rounded_to(static_cast<ScalarOp>(instr.op)) != analysis.memory_type(i))
    return;
  saturates_[i] = functions_[value] != nullptr;
  operands_[i] = operands_[value];
}

int Approximations::length(std::size_t i) const {
  constexpr int kShort = 6, kGelu = 10, kGelu8 = 7;
  const std::string_view name = functions_[i];
  return name == "short_gelu" ? kGelu : name == "gelu_for_float8" ? kGelu8 : kShort;
}

void Approximations::choose(const ProgramAnalysis& analysis, const std::vector<ValueRange>& ranges,
                            bool rounded_to_float8, std::size_t i) {
  const auto& instr = analysis.instr(i);
  const ScalarOp op = ops_[i];
  if (op == ScalarOp::kDiv) {
    const ValueRange &a = ranges[instr.args[0]], &b = ranges[instr.args[1]];
    if (b.low >= kSmall && (b.high <= kLarge || a.within(-kModest, kModest)))
      functions_[i] = "divide_by_normal";
  } else if (op == ScalarOp::kQuotient) {
    by_inverse_[i] = divides_by_inverse(ranges[instr.args[1]].low);
  } else if (op == ScalarOp::kReciprocal) {
    if (ranges[instr.args[0]].low >= kSmall) functions_[i] = "reciprocal_of_normal";
  } else if (op == ScalarOp::kMul) {
    if (const auto argument = gelu_argument(analysis, instr)) {
      functions_[i] = rounded_to_float8 ? "gelu_for_float8" : "short_gelu";
      operands_[i] = {*argument};
    }
  } else if (op == ScalarOp::kAdd) {
    // 1 + f(x): the sum would cancel the tail.
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

}  // namespace sinter::codegen
