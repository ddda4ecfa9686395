// SPDX-License-Identifier: Apache-2.0
// 8-bit floats: the values of their codes, and rounding to them. Standard library only: every
// folder may include this header.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include <sinter/dtype.h>

namespace sinter {

/// Layout: a sign, an exponent and, in the lowest bits, a mantissa. The values follow the OCP 8-bit
/// floating point specification and, for FNUZ (finite, one NaN, no negative zero),
/// arXiv:2206.02915.
struct Float8Format {
  int mantissa_bits;
  int bias;
  std::uint8_t largest;   // code of the largest finite value
  std::uint8_t infinity;  // code of infinity; 0: the type has none
  std::uint8_t nan;       // code of NaN that is written; reading accepts others, too
};

/// `type` must be an 8-bit float.
constexpr Float8Format float8_format(DType type) {
  switch (type) {
    case DType::kFloat8E5M2: return {2, 15, 0x7b, 0x7c, 0x7f};
    case DType::kFloat8E4M3FNUZ: return {3, 8, 0x7f, 0, 0x80};
    case DType::kFloat8E5M2FNUZ: return {2, 16, 0x7f, 0, 0x80};
    default: return {3, 7, 0x7e, 0, 0x7f};  // E4M3FN
  }
}

/// The code of negative zero stands for NaN.
constexpr bool is_unsigned_zero(const Float8Format& format) { return format.nan == 0x80; }

/// The value of `code`.
constexpr double decode_float8(DType type, std::uint8_t code) {
  const Float8Format format = float8_format(type);
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  const int magnitude = code & 0x7f;
  if (format.infinity != 0 && magnitude == format.infinity)
    return sign * std::numeric_limits<double>::infinity();
  if (is_unsigned_zero(format) ? code == format.nan : magnitude > format.largest)
    return std::numeric_limits<double>::quiet_NaN();
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  // Subnormal numbers have the smallest exponent and no leading one.
  const int units = exponent == 0 ? mantissa : mantissa | 1 << format.mantissa_bits;
  const int scale = (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits;
  const double unit = std::bit_cast<double>(static_cast<std::uint64_t>(scale + 1023) << 52);
  return sign * units * unit;
}

/// The code of `value`, rounded to nearest even. Overflow yields infinity, or NaN if the type has
/// no infinity. NaN has one code, without a sign.
constexpr std::uint8_t encode_float8(DType type, double value) {
  const Float8Format format = float8_format(type);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 56 & 0x80);
  const int stored_exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t fraction = bits & ((1ULL << 52) - 1);
  if (stored_exponent == 0x7ff && fraction != 0) return format.nan;
  const auto too_large =
      static_cast<std::uint8_t>(format.infinity != 0 ? sign | format.infinity : format.nan);
  if (stored_exponent == 0x7ff) return too_large;
  // value| = (2^52 + fraction) * 2^(exponent - 52). Subnormal doubles round to zero.
  const int exponent = stored_exponent - 1023;
  const int least = 1 - format.bias;  // subnormal numbers share the smallest exponent
  const int place = exponent > least ? exponent : least;
  const int shift = place - exponent + 52 - format.mantissa_bits;
  std::uint64_t units = 0;
  if (shift < 54) {
    const std::uint64_t mantissa = (1ULL << 52) | fraction, half = 1ULL << (shift - 1);
    const std::uint64_t rest = mantissa & ((1ULL << shift) - 1);
    units = mantissa >> shift;
    if (rest > half || (rest == half && (units & 1) != 0)) ++units;
  }
  // The leading one of `units` adds 1 to the exponent, as does a carry out of the mantissa.
  const std::uint64_t code =
      (static_cast<std::uint64_t>(place + format.bias - 1) << format.mantissa_bits) + units;
  if (code > format.largest) return too_large;
  if (code == 0 && is_unsigned_zero(format)) return 0;
  return static_cast<std::uint8_t>(sign | code);
}

/// The value of the type nearest to `value`.
constexpr double round_to_float8(DType type, double value) {
  return decode_float8(type, encode_float8(type, value));
}

/// The largest finite value of the type.
constexpr double largest_float8(DType type) {
  return decode_float8(type, float8_format(type).largest);
}

}  // namespace sinter
