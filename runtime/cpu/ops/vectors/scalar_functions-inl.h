// SPDX-License-Identifier: Apache-2.0
// What operators compute of single elements, for one Highway target. Integers wrap; division by
// zero yields zero.
#if defined(SINTER_SCALAR_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SINTER_SCALAR_FUNCTIONS_INL_H_
#undef SINTER_SCALAR_FUNCTIONS_INL_H_
#else
#define SINTER_SCALAR_FUNCTIONS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>
#include <sinter/float8.h>

#include "runtime/cpu/ops/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {

template <typename T>
using Unsigned = std::make_unsigned_t<std::conditional_t<(sizeof(T) < sizeof(int)), int, T>>;

template <typename T>
T divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a / b;
  else if (b == 0)
    return 0;
  else if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(Unsigned<T>(0) - static_cast<Unsigned<T>>(a));
  else
    return static_cast<T>(a / b);
}

template <typename T>
T remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fmod(a, b);
  else if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1)))
    return 0;
  else
    return static_cast<T>(a % b);
}

template <typename T>
T modulo(T a, T b) {
  const T r = remainder(a, b);
  if constexpr (std::is_floating_point_v<T>)
    if (r == 0) return std::copysign(r, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}

template <typename T>
T power(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b == 2) return a * a;
    return std::pow(a, b);
  } else {
    if (std::is_signed_v<T> && b < 0) {
      if (a == 1) return 1;
      if (a == static_cast<T>(-1)) return b % 2 == 0 ? 1 : static_cast<T>(-1);
      return 0;
    }
    Unsigned<T> result = 1, square = static_cast<Unsigned<T>>(a);
    for (auto e = static_cast<Unsigned<T>>(b); e != 0; e >>= 1) {
      if (e & 1) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }
}

template <typename T>
T wrap(T a, T b, char op) {
  using U = Unsigned<T>;
  const U x = static_cast<U>(a), y = static_cast<U>(b);
  return static_cast<T>(op == '+' ? x + y : op == '-' ? x - y : x * y);
}

/// Shifts left with zeros, right with sign bits. If b is negative or too large, only these remain.
template <typename T>
T shift(T a, T b, bool left) {
  const bool all = static_cast<std::uint64_t>(static_cast<std::int64_t>(b)) >= 8 * sizeof(T);
  if (!left) return all ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> b);
  return all ? T(0) : static_cast<T>(static_cast<std::uint64_t>(a) << b);
}

template <typename T, ScalarOp Op>
T arithmetic(T a, T b) {
  using enum ScalarOp;
  if constexpr (std::is_floating_point_v<T>) {
    if constexpr (Op == kAdd) return a + b;
    if constexpr (Op == kSub) return a - b;
    if constexpr (Op == kMul) return a * b;
    if constexpr (Op == kMin) return a != a || a < b ? a : b;
    if constexpr (Op == kMax) return a != a || a > b ? a : b;
  } else {
    if constexpr (Op == kAdd) return wrap(a, b, '+');
    if constexpr (Op == kSub) return wrap(a, b, '-');
    if constexpr (Op == kMul) return wrap(a, b, '*');
    if constexpr (Op == kMin) return std::min(a, b);
    if constexpr (Op == kMax) return std::max(a, b);
  }
  if constexpr (Op == kDiv || Op == kQuotient) return divide(a, b);
  if constexpr (Op == kMod) return modulo(a, b);
  if constexpr (Op == kFmod) return remainder(a, b);
  if constexpr (Op == kPow) return power(a, b);
  if constexpr (std::is_integral_v<T>) {
    if constexpr (Op == kBitAnd) return a & b;
    if constexpr (Op == kBitOr) return a | b;
    if constexpr (Op == kBitXor) return a ^ b;
    if constexpr (Op == kShiftLeft) return shift(a, b, true);
    if constexpr (Op == kShiftRight) return shift(a, b, false);
  }
}

template <typename T, ScalarOp Op>
T function(T a) {
  using enum ScalarOp;
  if constexpr (Op == kNeg) {
    if constexpr (std::is_floating_point_v<T>)
      return -a;
    else
      return wrap(T(0), a, '-');
  }
  if constexpr (Op == kAbs) {
    if constexpr (std::is_floating_point_v<T>)
      return std::abs(a);
    else
      return a < 0 ? wrap(T(0), a, '-') : a;
  }
  if constexpr (Op == kSign) return a > 0 ? T(1) : a < 0 ? static_cast<T>(-1) : a;
  if constexpr (std::is_floating_point_v<T>) {
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
    if constexpr (Op == kAtan) return std::atan(a);
    if constexpr (Op == kExpm1) return std::expm1(a);
    if constexpr (Op == kLog1p) return std::log1p(a);
    if constexpr (float8_rounded_to(Op))
      return static_cast<T>(round_to_float8(*float8_rounded_to(Op), a));
  } else {
    if constexpr (Op == kBitNot) return static_cast<T>(~a);
  }
  return a;  // floor, ceil and round do not change integers
}

template <typename T, ScalarOp Op>
bool test(T a, T b) {
  using enum ScalarOp;
  if constexpr (Op == kEqual) return a == b;
  if constexpr (Op == kNotEqual) return a != b;
  if constexpr (Op == kLess) return a < b;
  if constexpr (Op == kLessEqual) return a <= b;
  if constexpr (Op == kGreater) return a > b;
  return a >= b;
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
