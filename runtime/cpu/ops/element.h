// SPDX-License-Identifier: Apache-2.0
// Converts single elements of any type from and to double or int64.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

namespace sinter::runtime::cpu {

/// `p` may be unaligned. Stores round floats to nearest; integers wrap.
double load_double(DType dtype, const std::byte* p);
void store_double(DType dtype, std::byte* p, double value);
std::int64_t load_int(DType dtype, const std::byte* p);
void store_int(DType dtype, std::byte* p, std::int64_t value);

/// Converts `value` to any element type: integers truncate and saturate, NaN becomes 0.
template <typename T>
T from_double(double value) {
  if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    if (value != value) return 0;
    if (value <= static_cast<double>(Limits::min())) return Limits::min();
    if (value >= static_cast<double>(Limits::max())) return Limits::max();
  }
  return static_cast<T>(value);
}

float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
inline float bfloat_to_float(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t float_to_bfloat(float value);

/// Rounds to odd: truncates, and sets the last bit if inexact. Rounding the result to a narrower
/// type then equals rounding `value` directly.
float round_to_odd(double value);

/// Whether all bytes are 0 or 1, as kernels require; make_bools_plain() normalizes them.
bool are_plain_bools(std::span<const std::byte> bools);
void make_bools_plain(std::span<std::byte> bools);

/// Loads `count` elements of a float type of at most 32 bits with stride `step` as floats;
/// store_floats() is the inverse.
void load_floats(DType dtype, const std::byte* from, std::int64_t step, std::int64_t count,
                 float* to);
void store_floats(DType dtype, const float* from, std::byte* to, std::int64_t step,
                  std::int64_t count);

/// Calls visit with a value of type `type`'s C++ type; does nothing for bool and storage types.
template <typename Visit>
auto with_number_type(DType type, Visit&& visit) -> decltype(visit(float())) {
  switch (type) {
    case DType::kInt8: return visit(std::int8_t());
    case DType::kInt16: return visit(std::int16_t());
    case DType::kInt32: return visit(std::int32_t());
    case DType::kInt64: return visit(std::int64_t());
    case DType::kUInt8: return visit(std::uint8_t());
    case DType::kUInt16: return visit(std::uint16_t());
    case DType::kUInt32: return visit(std::uint32_t());
    case DType::kUInt64: return visit(std::uint64_t());
    case DType::kFloat32: return visit(float());
    case DType::kFloat64: return visit(double());
    default: return decltype(visit(float()))();
  }
}

/// Calls visit with a pointer to the C++ type of compute type `type`. Bool is visited as uint8,
/// which suits replacing but not combining.
template <typename Visit>
void with_compute_type(DType type, Visit&& visit) {
  if (type == DType::kBool) type = DType::kUInt8;
  with_number_type(compute_type(type),
                   [&](auto value) { visit(static_cast<decltype(value)*>(nullptr)); });
}

/// Combines two values as reductions do: integers wrap, NaN propagates.
template <typename T>
T combine_values(Combine combine, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (combine == Combine::kSum) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    if (combine == Combine::kProd)
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    if (combine == Combine::kSum) return a + b;
    if (combine == Combine::kProd) return a * b;
  }
  const bool takes_a = (combine == Combine::kMax ? a > b : a < b) | (a != a);
  if constexpr (sizeof(T) < sizeof(float)) {
    return takes_a ? a : b;
  } else {
    // Which one is greater is no pattern that a branch could learn.
    using Bits =
        std::conditional_t<sizeof(T) == sizeof(std::uint64_t), std::uint64_t, std::uint32_t>;
    const Bits chosen = Bits{0} - Bits{takes_a};
    return std::bit_cast<T>((std::bit_cast<Bits>(a) & chosen) | (std::bit_cast<Bits>(b) & ~chosen));
  }
}

}  // namespace sinter::runtime::cpu
