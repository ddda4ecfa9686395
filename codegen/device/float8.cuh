// SPDX-License-Identifier: Apache-2.0
// 8-bit floats. GPUs from compute capability 8.9 convert pairs of E4M3FN and E5M2; other formats
// and older GPUs use integer arithmetic.
#pragma once

#include "elementary.cuh"
#include "vector.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define SINTER_FLOAT8_CONVERTED
#endif

/// A format with sign, exponent and mantissa. `kLargest` is the code of the largest finite number,
/// `kInfinity` that of infinity or 0 if there is none, `kNan` the code written for NaN.
template <int kMantissa, int kTheBias, u32 kTheLargest, u32 kTheInfinity, u32 kTheNan>
struct Float8Format {
  static constexpr int kShift = 23 - kMantissa;  // mantissa bits of float that are dropped
  static constexpr int kBias = kTheBias;
  static constexpr u32 kLargest = kTheLargest, kInfinity = kTheInfinity, kNan = kTheNan;
  static constexpr bool kUnsignedZero = kNan == 0x80;  // the code of -0 is NaN's
  static constexpr u32 power_of_two(int exponent) { return static_cast<u32>(exponent + 127) << 23; }
  static constexpr u32 kSmallestNormal = power_of_two(1 - kBias);
  /// Adding this number to a subnormal rounds it: the sum's last mantissa bit has the weight of the
  /// format's smallest subnormal.
  static constexpr u32 kAligned = power_of_two(1 - kBias + kShift);
};
template <class T>
struct Float8;
template <>
struct Float8<e4m3fn> : Float8Format<3, 7, 0x7e, 0, 0x7f> {};
template <>
struct Float8<e5m2> : Float8Format<2, 15, 0x7b, 0x7c, 0x7f> {};
template <>
struct Float8<e4m3fnuz> : Float8Format<3, 8, 0x7f, 0, 0x80> {};
template <>
struct Float8<e5m2fnuz> : Float8Format<2, 16, 0x7f, 0, 0x80> {};

SINTER_DEVICE u32 bits_of_float(float x) {
  u32 bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
SINTER_DEVICE float float_of_bits(u32 bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

template <class T>
SINTER_DEVICE float widen_float8(u32 code) {
  typedef Float8<T> F;
  const u32 magnitude = code & 0x7f, sign = (code & 0x80) << 24;
  constexpr u32 kLeadingOne = 1u << (23 - F::kShift);
  // Subnormals are multiples of the smallest one.
  const float smallest = float_of_bits(F::power_of_two(1 - F::kBias + F::kShift - 23));
  const float value =
      magnitude < kLeadingOne
          ? static_cast<float>(static_cast<i32>(magnitude)) * smallest
          : float_of_bits((magnitude << F::kShift) + (static_cast<u32>(127 - F::kBias) << 23));
  if (F::kUnsignedZero) {
    if (code == F::kNan) return not_a_number();
  } else if (magnitude > F::kLargest) {
    return magnitude == F::kInfinity ? float_of_bits(sign | 0x7f800000u) : not_a_number();
  }
  return float_of_bits(bits_of_float(value) | sign);
}

template <class T>
SINTER_DEVICE u32 narrow_float8(float x) {
  typedef Float8<T> F;
  const u32 bits = bits_of_float(x), rest = bits & 0x7fffffffu, sign = bits >> 24 & 0x80u;
  const float magnitude = float_of_bits(rest);
  const u32 half = (1u << (F::kShift - 1)) - 1;
  const u32 normal = ((rest + half + (rest >> F::kShift & 1u)) >> F::kShift) -
                     (static_cast<u32>(127 - F::kBias) << (23 - F::kShift));
  const u32 subnormal = bits_of_float(magnitude + float_of_bits(F::kAligned)) - F::kAligned;
  const u32 code = magnitude < float_of_bits(F::kSmallestNormal) ? subnormal : normal;
  if (rest > 0x7f800000u) return F::kNan;
  if (code > F::kLargest) return F::kInfinity != 0 ? sign | F::kInfinity : F::kNan;
  return F::kUnsignedZero && code == 0 ? 0 : sign | code;
}

// ---- pairs, in the lower half of 32-bit registers
template <class T>
SINTER_DEVICE u32 narrow_pair_saturated(float low, float high);
template <class T>
SINTER_DEVICE u32 narrow_pair(float low, float high);

/// Saturating conversions: values above the largest finite number become that number.
#ifdef SINTER_FLOAT8_CONVERTED
template <>
SINTER_DEVICE u32 narrow_pair_saturated<e4m3fn>(float low, float high) {
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
SINTER_DEVICE u32 narrow_pair_saturated<e5m2>(float low, float high) {
  u16 pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
SINTER_DEVICE u32 narrow_pair<e4m3fn>(float low, float high) {
  // 464 is halfway between the largest number, 448, and 480, which would follow.
  constexpr float kMost = 464;
  return narrow_pair_saturated<e4m3fn>(fabsf(low) > kMost ? not_a_number() : low,
                                       fabsf(high) > kMost ? not_a_number() : high);
}
template <>
SINTER_DEVICE u32 narrow_pair<e5m2>(float low, float high) {
  constexpr float kInfinite = 61440;
  u32 pair = narrow_pair_saturated<e5m2>(low, high);
  // 0x7b is the code of the largest number, 0x7c that of infinity.
  if (fabsf(low) >= kInfinite) pair += 1;
  if (fabsf(high) >= kInfinite) pair += 1 << 8;
  return pair;
}
#endif
template <class T>
SINTER_DEVICE u32 narrow_pair(float low, float high) {
  return narrow_float8<T>(low) | narrow_float8<T>(high) << 8;
}
template <class T>
SINTER_DEVICE u32 narrow_pair_saturated(float low, float high) {
  const float largest = widen_float8<T>(Float8<T>::kLargest);
  return narrow_pair<T>(minimum(maximum(low, -largest), largest),
                        minimum(maximum(high, -largest), largest));
}

/// Converts two codes to two floats.
template <class T>
SINTER_DEVICE void widen_pair(u32 pair, float& low, float& high) {
  low = widen_float8<T>(pair & 0xff);
  high = widen_float8<T>(pair >> 8 & 0xff);
}
#ifdef __CUDACC__
SINTER_DEVICE void widen_halves(u32 halves, float& low, float& high) {
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(low), "=f"(high)
      : "r"(halves));
}
/// E5M2 is the upper byte of float16.
template <>
SINTER_DEVICE void widen_pair<e5m2>(u32 pair, float& low, float& high) {
  widen_halves(__byte_perm(pair, 0, 0x1404), low, high);
}
#endif
#ifdef SINTER_FLOAT8_CONVERTED
template <>
SINTER_DEVICE void widen_pair<e4m3fn>(u32 pair, float& low, float& high) {
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<u16>(pair)));
  widen_halves(halves, low, high);
}
#endif

// ---- single values and vectors
template <class T>
SINTER_DEVICE T narrow_saturated(float x) {
  return T{static_cast<u8>(narrow_pair_saturated<T>(x, 0.0f))};
}

/// Element j of a vector, as float; converts the pair that contains it.
template <class T, int N>
SINTER_DEVICE float widen_element(const Vec<T, N>& x, int j) {
  u32 pair = x.v[j / 2 * 2].bits;
  if constexpr (N % 4 == 0)
    pair = x.words[j / 4] >> (j % 4 / 2 * 16);
  else if constexpr (N > 1)
    pair |= static_cast<u32>(x.v[j / 2 * 2 + 1].bits) << 8;
  float low, high;
  widen_pair<T>(pair, low, high);
  return j % 2 == 0 ? low : high;
}

/// Converts N values, two at a time.
template <class T, int N, class NarrowPair>
SINTER_DEVICE Vec<T, N> pack_float8(const float (&x)[N], NarrowPair narrow_both) {
  Vec<T, N> result;
  if constexpr (N == 1) {
    result.v[0] = T{static_cast<u8>(narrow_both(x[0], 0.0f))};
  } else {
    constexpr int kWord = N % 4 == 0 ? 4 : 2;
#pragma unroll
    for (int j = 0; j < N; j += kWord) {
      u32 word = narrow_both(x[j], x[j + 1]);
      if constexpr (kWord == 4) word |= narrow_both(x[j + 2], x[j + 3]) << 16;
      memcpy(&result.v[j], &word, kWord);
    }
  }
  return result;
}
/// Pack<T> that saturates to the largest finite number.
template <class T>
struct PackSaturated {
  template <int N>
  SINTER_DEVICE static Vec<T, N> of(const float (&x)[N]) {
    return pack_float8<T>(
        x, [](float low, float high) { return narrow_pair_saturated<T>(low, high); });
  }
};

#define SINTER_FLOAT8(T)                                                                          \
  SINTER_DEVICE float widen(T x) {                                                                \
    float value, unused;                                                                          \
    widen_pair<T>(x.bits, value, unused);                                                         \
    return value;                                                                                 \
  }                                                                                               \
  template <>                                                                                     \
  struct Narrow<T> {                                                                              \
    SINTER_DEVICE static T of(float x) { return T{static_cast<u8>(narrow_pair<T>(x, 0.0f))}; }    \
  };                                                                                              \
  template <>                                                                                     \
  struct Pack<T> {                                                                                \
    template <int N>                                                                              \
    SINTER_DEVICE static Vec<T, N> of(const float (&x)[N]) {                                      \
      return pack_float8<T>(x, [](float low, float high) { return narrow_pair<T>(low, high); });  \
    }                                                                                             \
  };                                                                                              \
  template <int N>                                                                                \
  SINTER_DEVICE float widen(const Vec<T, N>& x, int j) {                                          \
    return widen_element(x, j);                                                                   \
  }                                                                                               \
  SINTER_DEVICE float round_to_##T(float x) { return widen(narrow<T>(x)); }                       \
  SINTER_DEVICE float round_to_##T##_saturated(float x) { return widen(narrow_saturated<T>(x)); } \
  SINTER_DEVICE double round_to_##T(double x) { return widen(narrow<T>(convert_to_odd(x))); }
SINTER_FLOAT8(e4m3fn)
SINTER_FLOAT8(e5m2)
SINTER_FLOAT8(e4m3fnuz)
SINTER_FLOAT8(e5m2fnuz)
#undef SINTER_FLOAT8

/// Rounds element j to T, an 8-bit float; converts the pair that contains it.
template <class T, int N, class NarrowPair>
SINTER_DEVICE float round_element(const float (&x)[N], int j, NarrowPair narrow_both) {
  float low, high;
  widen_pair<T>(narrow_both(x[j / 2 * 2], x[j / 2 * 2 + 1]), low, high);
  return j % 2 == 0 ? low : high;
}
template <class T, int N>
SINTER_DEVICE float round_element(const float (&x)[N], int j) {
  return round_element<T>(x, j, [](float low, float high) { return narrow_pair<T>(low, high); });
}
/// As above, saturating to the largest finite number.
template <class T, int N>
SINTER_DEVICE float round_element_saturated(const float (&x)[N], int j) {
  return round_element<T>(
      x, j, [](float low, float high) { return narrow_pair_saturated<T>(low, high); });
}

/// Rounds N values to T, an 8-bit float, saturating to the largest finite number, and stores
/// them.
template <class T, int N>
SINTER_DEVICE void store_saturated(T* p, const float (&x)[N]) {
  store(p, PackSaturated<T>::of(x));
}
