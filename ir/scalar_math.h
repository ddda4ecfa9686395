// SPDX-License-Identifier: Apache-2.0
// The semantics of each scalar primitive, for single elements and for columns. Floats are doubles;
// integers and bool are int64 with a value of their type (uint64 as its bit pattern).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <sinter/dtype.h>
#include <sinter/float8.h>
#include <sinter/scalar_op.h>

namespace sinter::ir {

/// Calls visit.template operator()<op>().
template <typename Visit>
decltype(auto) dispatch_scalar_op(ScalarOp op, Visit&& visit) {
  switch (op) {
#define X(enumerator, name, arity, number, operands, work) \
  case ScalarOp::enumerator: return visit.template operator()<ScalarOp::enumerator>();
    SINTER_SCALAR_OPS(X)
#undef X
  }
  return visit.template operator()<ScalarOp::kAdd>();
}

/// `value` reduced modulo 2^width to the range of integer type `type`; bool: value != 0.
constexpr std::int64_t wrap_to(DType type, std::int64_t value) {
  switch (type) {
    case DType::kBool: return value != 0;
    case DType::kInt8: return static_cast<std::int8_t>(value);
    case DType::kInt16: return static_cast<std::int16_t>(value);
    case DType::kInt32: return static_cast<std::int32_t>(value);
    case DType::kUInt8: return static_cast<std::uint8_t>(value);
    case DType::kUInt16: return static_cast<std::uint16_t>(value);
    case DType::kUInt32: return static_cast<std::uint32_t>(value);
    default: return value;
  }
}

constexpr std::int64_t min_value_of(DType type) {
  switch (type) {
    case DType::kInt8: return std::numeric_limits<std::int8_t>::min();
    case DType::kInt16: return std::numeric_limits<std::int16_t>::min();
    case DType::kInt32: return std::numeric_limits<std::int32_t>::min();
    case DType::kInt64: return std::numeric_limits<std::int64_t>::min();
    default: return 0;
  }
}

/// For uint64 the bit pattern of its maximum.
constexpr std::int64_t max_value_of(DType type) {
  switch (type) {
    case DType::kBool: return 1;
    case DType::kInt8: return std::numeric_limits<std::int8_t>::max();
    case DType::kInt16: return std::numeric_limits<std::int16_t>::max();
    case DType::kInt32: return std::numeric_limits<std::int32_t>::max();
    case DType::kUInt8: return std::numeric_limits<std::uint8_t>::max();
    case DType::kUInt16: return std::numeric_limits<std::uint16_t>::max();
    case DType::kUInt32: return std::numeric_limits<std::uint32_t>::max();
    case DType::kUInt64: return -1;
    default: return std::numeric_limits<std::int64_t>::max();
  }
}

inline double int_to_double(DType from, std::int64_t value) {
  return from == DType::kUInt64 ? static_cast<double>(static_cast<std::uint64_t>(value))
                                : static_cast<double>(value);
}

/// Truncates; saturates outside the type's range (as GPUs do; undefined in C++); NaN gives 0.
inline std::int64_t double_to_int(DType to, double value) {
  if (to == DType::kBool) return value != 0;
  if (std::isnan(value)) return 0;
  if (to == DType::kUInt64) {
    if (value <= 0) return 0;
    return value >= 18446744073709551616.0
               ? -1
               : static_cast<std::int64_t>(static_cast<std::uint64_t>(value));
  }
  if (value <= static_cast<double>(min_value_of(to))) return min_value_of(to);
  if (value >= static_cast<double>(max_value_of(to))) return max_value_of(to);
  return static_cast<std::int64_t>(value);
}

/// A value as a float and as an integer; its type determines which is valid.
struct Scalar {
  double f = 0;
  std::int64_t i = 0;
};

/// `value`, of type `from`, as a value of type `to`.
inline Scalar cast_value(DType to, DType from, const Scalar& value) {
  if (is_float(from))
    return is_float(to) ? Scalar{value.f, 0} : Scalar{0, double_to_int(to, value.f)};
  return is_float(to) ? Scalar{int_to_double(from, value.i), 0} : Scalar{0, wrap_to(to, value.i)};
}

/// Arithmetic primitives on floats.
template <ScalarOp Op>
double float_value(double a, double b) {
  using enum ScalarOp;
  if constexpr (Op == kAdd) return a + b;
  if constexpr (Op == kSub) return a - b;
  if constexpr (Op == kMul) return a * b;
  if constexpr (Op == kDiv) return a / b;
  if constexpr (Op == kMod) {
    const double r = std::fmod(a, b);
    if (r == 0) return std::copysign(r, b);  // a zero result also has the divisor's sign
    return (r < 0) != (b < 0) ? r + b : r;
  }
  if constexpr (Op == kFmod) return std::fmod(a, b);
  if constexpr (Op == kPow) return std::pow(a, b);
  if constexpr (Op == kMin) return std::isnan(a) || a < b ? a : b;
  if constexpr (Op == kMax) return std::isnan(a) || a > b ? a : b;
  if constexpr (Op == kNeg) return -a;
  if constexpr (Op == kAbs) return std::abs(a);
  if constexpr (Op == kSign) return a > 0 ? 1 : a < 0 ? -1 : a;
  if constexpr (Op == kFloor) return std::floor(a);
  if constexpr (Op == kCeil) return std::ceil(a);
  if constexpr (Op == kRound) return std::nearbyint(a);
  if constexpr (Op == kSqrt) return std::sqrt(a);
  if constexpr (Op == kRsqrt) return 1 / std::sqrt(a);
  if constexpr (Op == kReciprocal) return 1 / a;
  if constexpr (Op == kExp) return std::exp(a);
  if constexpr (Op == kLog) return std::log(a);
  if constexpr (Op == kErf) return std::erf(a);
  if constexpr (Op == kTanh) return std::tanh(a);
  if constexpr (Op == kSin) return std::sin(a);
  if constexpr (Op == kCos) return std::cos(a);
  if constexpr (Op == kQuotient) return a / b;
  if constexpr (Op == kAtan) return std::atan(a);
  if constexpr (Op == kExpm1) return std::expm1(a);
  if constexpr (Op == kLog1p) return std::log1p(a);
  if constexpr (float8_rounded_to(Op)) return round_to_float8(*float8_rounded_to(Op), a);
  return a;
}

/// Primitives on floats that yield bool.
template <ScalarOp Op>
bool float_test(double a, double b) {
  using enum ScalarOp;
  if constexpr (Op == kEqual) return a == b;
  if constexpr (Op == kNotEqual) return a != b;
  if constexpr (Op == kLess) return a < b;
  if constexpr (Op == kLessEqual) return a <= b;
  if constexpr (Op == kGreater) return a > b;
  if constexpr (Op == kGreaterEqual) return a >= b;
  if constexpr (Op == kIsNan) return std::isnan(a);
  if constexpr (Op == kIsInf) return std::isinf(a);
  return false;
}

template <ScalarOp Op>
bool int_test(DType type, std::int64_t a, std::int64_t b) {
  using enum ScalarOp;
  const bool less = type == DType::kUInt64
                        ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b)
                        : a < b;
  if constexpr (Op == kEqual) return a == b;
  if constexpr (Op == kNotEqual) return a != b;
  if constexpr (Op == kLess) return less;
  if constexpr (Op == kLessEqual) return less || a == b;
  if constexpr (Op == kGreater) return !less && a != b;
  if constexpr (Op == kGreaterEqual) return !less;
  if constexpr (Op == kAnd) return a != 0 && b != 0;
  if constexpr (Op == kOr) return a != 0 || b != 0;
  if constexpr (Op == kXor) return (a != 0) != (b != 0);
  if constexpr (Op == kNot) return a == 0;
  return false;
}

/// a / b and a - b * (a / b), truncating; zero for b == 0.
struct IntDivision {
  std::int64_t quotient = 0, remainder = 0;
};
inline IntDivision divide_ints(DType type, std::int64_t a, std::int64_t b) {
  if (b == 0) return {};
  if (type == DType::kUInt64) {
    const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
    return {static_cast<std::int64_t>(ua / ub), static_cast<std::int64_t>(ua % ub)};
  }
  // INT64_MIN / -1 overflows: negate with wraparound instead.
  if (b == -1) return {static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a)), 0};
  return {a / b, a % b};
}

inline std::int64_t int_power(DType type, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 && type != DType::kUInt64) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  std::uint64_t result = 1, square = static_cast<std::uint64_t>(base);
  for (auto e = static_cast<std::uint64_t>(exponent); e != 0; e >>= 1) {
    if (e & 1) result *= square;
    square *= square;
  }
  return static_cast<std::int64_t>(result);
}

constexpr int bits_of(DType type) { return static_cast<int>(size_of(type)) * 8; }

/// a shifted by b: zeros enter on a left shift, copies of the sign on a right shift. If b is
/// negative or at least the type's width, all bits are entered ones.
template <bool kLeft>
std::int64_t shift_int(DType type, std::int64_t a, std::int64_t b) {
  const auto by = static_cast<std::uint64_t>(b), bits = static_cast<std::uint64_t>(a);
  const bool all = by >= static_cast<unsigned>(bits_of(type));
  if constexpr (kLeft) return all ? 0 : wrap_to(type, static_cast<std::int64_t>(bits << by));
  if (type == DType::kUInt64) return all ? 0 : static_cast<std::int64_t>(bits >> by);
  return all ? (a < 0 ? -1 : 0) : a >> by;
}

/// The bits of a value of `from` as a value of `to`, a compute type of the same size.
inline Scalar cast_bits(DType to, DType from, double f, std::int64_t i) {
  std::uint64_t bits = static_cast<std::uint64_t>(i);
  if (from == DType::kFloat32) bits = std::bit_cast<std::uint32_t>(static_cast<float>(f));
  if (from == DType::kFloat64) bits = std::bit_cast<std::uint64_t>(f);
  if (to == DType::kFloat32)
    return {static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))), 0};
  if (to == DType::kFloat64) return {std::bit_cast<double>(bits), 0};
  return {0, wrap_to(to, static_cast<std::int64_t>(bits))};
}

/// Arithmetic primitives on integers: exact at the type's width, with wraparound.
template <ScalarOp Op>
std::int64_t int_value(DType type, std::int64_t a, std::int64_t b) {
  using enum ScalarOp;
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  const auto wrapped = [type](std::uint64_t v) {
    return wrap_to(type, static_cast<std::int64_t>(v));
  };
  if constexpr (Op == kAdd) return wrapped(ua + ub);
  if constexpr (Op == kSub) return wrapped(ua - ub);
  if constexpr (Op == kMul) return wrapped(ua * ub);
  if constexpr (Op == kDiv) return wrap_to(type, divide_ints(type, a, b).quotient);
  if constexpr (Op == kFmod) return divide_ints(type, a, b).remainder;
  if constexpr (Op == kMod) {
    const std::int64_t r = divide_ints(type, a, b).remainder;
    return type != DType::kUInt64 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
  if constexpr (Op == kPow) return wrap_to(type, int_power(type, a, b));
  if constexpr (Op == kMin) return int_test<kLess>(type, a, b) ? a : b;
  if constexpr (Op == kMax) return int_test<kLess>(type, a, b) ? b : a;
  if constexpr (Op == kNeg) return wrapped(0 - ua);
  if constexpr (Op == kAbs) return type != DType::kUInt64 && a < 0 ? wrapped(0 - ua) : a;
  if constexpr (Op == kSign) return a == 0 ? 0 : type != DType::kUInt64 && a < 0 ? -1 : 1;
  if constexpr (Op == kBitAnd) return a & b;
  if constexpr (Op == kBitOr) return a | b;
  if constexpr (Op == kBitXor) return a ^ b;
  if constexpr (Op == kBitNot) return wrapped(~ua);
  if constexpr (Op == kShiftLeft) return shift_int<true>(type, a, b);
  if constexpr (Op == kShiftRight) return shift_int<false>(type, a, b);
  return a;  // floor, ceil and round do not change an integer
}

}  // namespace sinter::ir
