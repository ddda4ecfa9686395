// SPDX-License-Identifier: Apache-2.0
// Branch-free conversions between 8-bit floats and float32, so that loops vectorize.
#pragma once

#include <cstdint>

#include <sinter/dtype.h>
#include <sinter/float8.h>

namespace sinter::runtime::cpu {

/// Constants of a format in float32.
template <DType kType>
struct Float8Numbers {
  static constexpr Float8Format kFormat = float8_format(kType);
  /// Mantissa bits that float32 has beyond the type's.
  static constexpr int kShift = 23 - kFormat.mantissa_bits;
  /// Difference of the exponent biases, aligned to the truncated mantissa.
  static constexpr std::uint32_t kBias = static_cast<std::uint32_t>(127 - kFormat.bias)
                                         << kFormat.mantissa_bits;
  static constexpr float power_of_two(int exponent) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(exponent + 127) << 23);
  }
  static constexpr float kLargest = static_cast<float>(largest_float8(kType));
  static constexpr float kSmallestNormal = power_of_two(1 - kFormat.bias);
  /// Its ulp equals the spacing of the type's subnormals, so adding it rounds to them.
  static constexpr float kAligned = power_of_two(1 - kFormat.bias + kShift);
  static constexpr float kTooLarge = kFormat.infinity != 0
                                         ? std::numeric_limits<float>::infinity()
                                         : std::numeric_limits<float>::quiet_NaN();
};

template <DType kType>
float float8_to_float(std::uint8_t code) {
  using Numbers = Float8Numbers<kType>;
  constexpr Float8Format kFormat = Numbers::kFormat;
  const std::uint32_t magnitude = code & 0x7fU, sign = (code & 0x80U) << 24;
  // Reads the code as a float32 with a smaller exponent; the multiplication corrects it, subnormals
  // included.
  const float small = __builtin_bit_cast(float, magnitude << Numbers::kShift);
  float value = small * Numbers::power_of_two(127 - kFormat.bias);
  if (is_unsigned_zero(kFormat)) {
    value = code == kFormat.nan ? Numbers::kTooLarge : value;
  } else {
    value = magnitude > kFormat.largest ? std::numeric_limits<float>::quiet_NaN() : value;
    if (kFormat.infinity != 0) value = magnitude == kFormat.infinity ? Numbers::kTooLarge : value;
  }
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, value) | sign);
}

template <DType kType>
std::uint8_t float_to_float8(float value) {
  using Numbers = Float8Numbers<kType>;
  constexpr Float8Format kFormat = Numbers::kFormat;
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rest = bits & 0x7fffffffU, sign = bits >> 24 & 0x80U;
  const float magnitude = __builtin_bit_cast(float, rest);
  constexpr std::uint32_t kHalf = (1U << (Numbers::kShift - 1)) - 1;
  const std::uint32_t normal =
      ((rest + kHalf + (rest >> Numbers::kShift & 1U)) >> Numbers::kShift) - Numbers::kBias;
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, magnitude + Numbers::kAligned) -
                                  __builtin_bit_cast(std::uint32_t, Numbers::kAligned);
  std::uint32_t code = magnitude < Numbers::kSmallestNormal ? subnormal : normal;
  const std::uint32_t too_large = kFormat.infinity != 0 ? sign | kFormat.infinity : kFormat.nan;
  const std::uint32_t signed_code = is_unsigned_zero(kFormat) && code == 0 ? 0 : sign | code;
  code = code > kFormat.largest ? too_large : signed_code;
  return static_cast<std::uint8_t>(rest > 0x7f800000U ? kFormat.nan : code);
}

/// Calls visit.template operator()<type>() for the 8-bit float type `type`.
template <typename Visit>
decltype(auto) with_float8(DType type, Visit&& visit) {
  switch (type) {
    case DType::kFloat8E5M2: return visit.template operator()<DType::kFloat8E5M2>();
    case DType::kFloat8E4M3FNUZ: return visit.template operator()<DType::kFloat8E4M3FNUZ>();
    case DType::kFloat8E5M2FNUZ: return visit.template operator()<DType::kFloat8E5M2FNUZ>();
    default: return visit.template operator()<DType::kFloat8E4M3FN>();
  }
}

}  // namespace sinter::runtime::cpu
