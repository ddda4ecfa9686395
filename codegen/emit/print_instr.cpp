// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/print_instr.h"

#include <cmath>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"

namespace sinter::codegen {
namespace {

std::string print_float(DType type, double value) {
  const bool single = type == DType::kFloat32;
  const std::string name = single ? "float" : "double";
  if (single) value = static_cast<double>(static_cast<float>(value));
  if (std::isnan(value)) return name + "(not_a_number())";
  if (std::isinf(value)) return fmt::format("{}({}infinity())", name, value < 0 ? "-" : "");
  // The shortest text that reads back as the same value.
  std::string digits = single ? fmt::format("{}", std::abs(static_cast<float>(value)))
                              : fmt::format("{}", std::abs(value));
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  if (single) digits += "f";
  return std::signbit(value) ? "(-" + digits + ")" : digits;
}

const char* function_name(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd: return "add";
    case ScalarOp::kSub: return "subtract";
    case ScalarOp::kMul: return "multiply";
    case ScalarOp::kDiv: return "divide";
    case ScalarOp::kMod: return "remainder_floored";
    case ScalarOp::kFmod: return "remainder_truncated";
    case ScalarOp::kPow: return "power";
    case ScalarOp::kMin: return "minimum";
    case ScalarOp::kMax: return "maximum";
    case ScalarOp::kNeg: return "negate";
    case ScalarOp::kAbs: return "absolute";
    case ScalarOp::kSign: return "sign_of";
    case ScalarOp::kFloor: return "round_down";
    case ScalarOp::kCeil: return "round_up";
    case ScalarOp::kRound: return "round_to_even";
    case ScalarOp::kSqrt: return "square_root";
    case ScalarOp::kRsqrt: return "inverse_square_root";
    case ScalarOp::kReciprocal: return "reciprocal";
    case ScalarOp::kExp: return "exponential";
    case ScalarOp::kLog: return "logarithm";
    case ScalarOp::kErf: return "error_function";
    case ScalarOp::kTanh: return "hyperbolic_tangent";
    case ScalarOp::kSin: return "sine";
    case ScalarOp::kCos: return "cosine";
    case ScalarOp::kQuotient: return "quotient_to_nearest";
    case ScalarOp::kAtan: return "arc_tangent";
    case ScalarOp::kExpm1: return "exponential_minus_one";
    case ScalarOp::kLog1p: return "logarithm_of_one_plus";
    case ScalarOp::kBitAnd: return "bits_of_both";
    case ScalarOp::kBitOr: return "bits_of_either";
    case ScalarOp::kBitXor: return "bits_of_one";
    case ScalarOp::kBitNot: return "bits_inverted";
    case ScalarOp::kShiftLeft: return "shift_left";
    case ScalarOp::kShiftRight: return "shift_right";
    case ScalarOp::kIsNan: return "is_nan";
    case ScalarOp::kIsInf: return "is_infinite";
    case ScalarOp::kToE4M3FN: return "round_to_e4m3fn";
    case ScalarOp::kToE5M2: return "round_to_e5m2";
    case ScalarOp::kToE4M3FNUZ: return "round_to_e4m3fnuz";
    case ScalarOp::kToE5M2FNUZ: return "round_to_e5m2fnuz";
    default: return nullptr;
  }
}

const char* infix_symbol(ScalarOp op, DType from) {
  switch (op) {
    case ScalarOp::kEqual: return "==";
    case ScalarOp::kNotEqual: return "!=";
    case ScalarOp::kLess: return "<";
    case ScalarOp::kLessEqual: return "<=";
    case ScalarOp::kGreater: return ">";
    case ScalarOp::kGreaterEqual: return ">=";
    case ScalarOp::kAnd: return "&&";
    case ScalarOp::kOr: return "||";
    case ScalarOp::kXor: return "!=";
    default: break;
  }
  if (!is_float(from)) return nullptr;  // integers wrap: see elementary.cuh
  switch (op) {
    case ScalarOp::kAdd: return "+";
    case ScalarOp::kSub: return "-";
    case ScalarOp::kMul: return "*";
    default: return nullptr;
  }
}

/// x / c as x * (1 / c): one more rounding, far fewer instructions.
std::string print_division(DType type, std::span<const Operand> args) {
  if (type == DType::kFloat32 && args[1].constant != nullptr) {
    const float inverse = 1.0f / static_cast<float>(args[1].constant->constant_float);
    if (std::isnormal(inverse))
      return fmt::format("{} * {}", args[0].text, print_float(type, inverse));
  }
  if (!args[1].inverse.empty()) return fmt::format("{} * {}", args[0].text, args[1].inverse);
  return fmt::format("divide({}, {})", args[0].text, args[1].text);
}

/// x / c rounded to nearest, by the reciprocal, which is exact if c is a power of two.
std::string print_quotient(DType type, std::span<const Operand> args) {
  const std::string &a = args[0].text, &b = args[1].text;
  if (type == DType::kFloat32 && args[1].constant != nullptr) {
    const float value = static_cast<float>(args[1].constant->constant_float);
    const float inverse = 1.0f / value;
    int exponent = 0;
    if (std::frexp(value, &exponent) == 0.5f && std::isnormal(inverse))
      return fmt::format("{} * {}", a, print_float(type, inverse));
    if (divides_by_inverse(value) && std::isfinite(value))
      return fmt::format("quotient_to_nearest({}, {}, {})", a, b, print_float(type, inverse));
  }
  if (!args[1].inverse.empty())
    return fmt::format("quotient_to_nearest({}, {}, {})", a, b, args[1].inverse);
  return fmt::format("quotient_to_nearest({}, {})", a, b);
}

}  // namespace

bool divides_by_inverse(double low) { return low >= 0x1p-101; }

std::string print_constant(DType type, double float_value, std::int64_t int_value) {
  switch (type) {
    case DType::kBool: return int_value != 0 ? "true" : "false";
    case DType::kInt32:
      return int_value == INT32_MIN ? "i32(-2147483647 - 1)" : int_literal(int_value);
    case DType::kUInt64: return fmt::format("{}ULL", static_cast<std::uint64_t>(int_value));
    case DType::kUInt32: return fmt::format("{}u", static_cast<std::uint32_t>(int_value));
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kUInt16: {
      const std::string literal = int_literal(int_value);
      return compute_name(type) + (literal.front() == '(' ? literal : "(" + literal + ")");
    }
    default: return print_float(compute_type(type), float_value);
  }
}

std::string print_op(ScalarOp op, DType type, DType from, std::span<const Operand> args) {
  if (op == ScalarOp::kCast) {
    if (type == from) return args[0].text;
    return fmt::format("convert<{}>({})", compute_name(type), args[0].text);
  }
  if (op == ScalarOp::kBitCast)
    return fmt::format("same_bits<{}>({})", compute_name(type), args[0].text);
  if (op == ScalarOp::kSelect)
    return fmt::format("{} ? {} : {}", args[0].text, args[1].text, args[2].text);
  if (op == ScalarOp::kNot) return "!" + args[0].text;
  if (op == ScalarOp::kDiv) return print_division(from, args);
  if (op == ScalarOp::kQuotient) return print_quotient(from, args);
  if (op == ScalarOp::kPow && is_float(from) && args[1].constant != nullptr) {
    const double exponent = args[1].constant->constant_float;
    if (exponent == 2) return fmt::format("squared({})", args[0].text);
    if (exponent == 3) return fmt::format("cubed({})", args[0].text);
  }
  if (const char* symbol = infix_symbol(op, from))
    return fmt::format("{} {} {}", args[0].text, symbol, args[1].text);
  const char* function = function_name(op);
  if (args.size() == 1) return fmt::format("{}({})", function, args[0].text);
  return fmt::format("{}({}, {})", function, args[0].text, args[1].text);
}

std::string combine_name(Combine combine) {
  constexpr const char* names[kCombineCount] = {"Sum", "Prod", "Max", "Min"};
  return names[static_cast<std::size_t>(combine)];
}

}  // namespace sinter::codegen
