// SPDX-License-Identifier: Apache-2.0
// Stores of results: in their own type, or scaled and rounded to 8 bits.
#pragma once

#include "float8.cuh"
#include "mma.cuh"

/// Two adjacent results as 8 bits each in the lower half of a register, saturating to the largest
/// number. `zero` applies to integers only.
template <class Result>
struct RoundedPair {
  SINTER_DEVICE static u32 of(float low, float high, float) {
    return narrow_pair_saturated<Result>(low, high);
  }
};
template <class Integer>
struct RoundedIntegers {
  SINTER_DEVICE static u32 one(float x, float zero) {
    const Integer code =
        zero == 0.0f ? convert_rounded<Integer>(x) : convert<Integer>(round_to_even(x) + zero);
    return static_cast<u8>(code);
  }
  SINTER_DEVICE static u32 of(float low, float high, float zero) {
    return one(low, zero) | one(high, zero) << 8;
  }
};
template <>
struct RoundedPair<i8> : RoundedIntegers<i8> {};
template <>
struct RoundedPair<u8> : RoundedIntegers<u8> {};

/// Transposes halves of two registers: both lower halves to `low`, both upper halves to `high`.
SINTER_DEVICE void sort_halves(u32 first, u32 second, u32& low, u32& high) {
  low = (first & 0xffffu) | second << 16;
  high = first >> 16 | (second & 0xffff0000u);
}
