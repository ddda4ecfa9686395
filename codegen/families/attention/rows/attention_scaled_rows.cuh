// SPDX-License-Identifier: Apache-2.0
// Keys and values as 8-bit rows with a scale each (ir/scaled_rows.h): conversion to 16-bit floats
// between shared memory and the MMA, and quantization of new rows.
#pragma once

#include "math.cuh"
#include "mma.cuh"
#include "reduce.cuh"

/// Constants of element type C: kLargest, and kUnit. MMAs use element / kUnit, at most about 1, and
/// the row's scale times kUnit. Weights times value scales, rounded to 16 bits, then have the
/// magnitude of weights times values.
template <class C>
struct ScaledRow {
  static constexpr float kUnit = 1;  // not an 8-bit type
};
template <>
struct ScaledRow<e4m3fn> {
  static constexpr float kLargest = 448, kUnit = 256;
};
template <>
struct ScaledRow<i8> {
  static constexpr float kLargest = 127, kUnit = 128;
};

SINTER_DEVICE float widen_code(e4m3fn x) { return widen_float8<e4m3fn>(x.bits); }
SINTER_DEVICE float widen_code(i8 x) { return static_cast<float>(x); }
SINTER_DEVICE void narrow_code(float x, e4m3fn& code) {
  code.bits = static_cast<u8>(narrow_pair<e4m3fn>(x, 0.0f));
}
SINTER_DEVICE void narrow_code(float x, i8& code) { code = static_cast<i8>(rintf(x)); }

/// The result of widen_bytes() for four elements of C in a word: pairs of T, elements / kUnit. A
/// pair has bytes 0 and 1, or 2 and 3 (kNeighbours); otherwise 0 and 2, or 1 and 3, whichever takes
/// fewer instructions.
template <class T, class C>
struct WidenedWord {
  static constexpr bool kNeighbours = false;
  static constexpr float kUnit = ScaledRow<C>::kUnit;
};
#ifdef SINTER_FLOAT8_CONVERTED
template <>
struct WidenedWord<f16, e4m3fn> {
  static constexpr bool kNeighbours = true;
  static constexpr float kUnit = 1;
};
#endif

template <class T, class C>
SINTER_DEVICE void widen_bytes(u32 word, u32& first, u32& second) {
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    C code;
    const u8 byte = static_cast<u8>(word >> (i * 8));
    memcpy(&code, &byte, 1);
    x[i] = widen_code(code) / WidenedWord<T, C>::kUnit;
  }
  first = pack_pair<T>(x[0], x[2]);
  second = pack_pair<T>(x[1], x[3]);
}
#ifdef __CUDACC__
// NaN codes need no handling: a row with a NaN has a NaN scale.
template <>
SINTER_DEVICE void widen_bytes<f16, e4m3fn>(u32 word, u32& first, u32& second) {
#ifdef SINTER_FLOAT8_CONVERTED
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.rn.f16x2.e4m3x2 %0, l; cvt.rn.f16x2.e4m3x2 %1, h; "
      "}"
      : "=r"(first), "=r"(second)
      : "r"(word));
#else
  // E4M3's exponent bits placed in float16's exponent give the number times 2^-8.
  first = (word << 7 & 0x3f803f80u) | (word << 8 & 0x80008000u);
  second = (word >> 1 & 0x3f803f80u) | (word & 0x80008000u);
#endif
}
/// In bfloat16's exponent they give the number times 2^-120; the FMA multiplies by 2^112.
template <>
SINTER_DEVICE void widen_bytes<bf16, e4m3fn>(u32 word, u32& even, u32& odd) {
  const auto scaled = [](u32 pair) {
    constexpr u32 kPower112 = 0x77807780u, kMinusZero = 0x80008000u;
    u32 result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(pair), "r"(kPower112), "r"(kMinusZero));
    return result;
  };
  even = scaled((word << 4 & 0x07f007f0u) | (word << 8 & 0x80008000u));
  odd = scaled((word >> 4 & 0x07f007f0u) | (word & 0x80008000u));
}
/// Adding 128 makes the byte unsigned; as low bits of the float16 1024 it is 1024 + byte.
template <>
SINTER_DEVICE void widen_bytes<f16, i8>(u32 word, u32& even, u32& odd) {
  const u32 biased = word ^ 0x80808080u;
  const auto scaled = [](u32 pair) {
    constexpr u32 kOne128th = 0x20002000u, kMinusNine = 0xc880c880u;
    u32 result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(kOne128th), "r"(kMinusNine));
    return result;
  };
  even = scaled((biased & 0x00ff00ffu) | 0x64006400u);
  odd = scaled((biased >> 8 & 0x00ff00ffu) | 0x64006400u);
}
/// bfloat16 has too few mantissa bits; the low bits of the float32 2^23 are used instead.
template <>
SINTER_DEVICE void widen_bytes<bf16, i8>(u32 word, u32& even, u32& odd) {
  const u32 biased = word ^ 0x80808080u;
  const auto number = [biased](u32 selector) {
    constexpr float kOffset = 8388608.0f + 128.0f;
    return (float_of_bits(__byte_perm(biased, 0x4b000000u, selector)) - kOffset) * (1.0f / 128.0f);
  };
  even = pack_pair<bf16>(number(0x7440), number(0x7442));
  odd = pack_pair<bf16>(number(0x7441), number(0x7443));
}
#endif

/// Pairs of bytes 0 and 2, and 1 and 3.
template <class T, class C>
SINTER_DEVICE void widen_across(u32 word, u32& even, u32& odd) {
#ifdef __CUDACC__
  if (WidenedWord<T, C>::kNeighbours) word = __byte_perm(word, 0, 0x3120);
#endif
  widen_bytes<T, C>(word, even, odd);
}

/// Factor of a row's scale relative to `least`, its maximum magnitude / the largest number. For
/// floats: tries scales that map the maximum to one of the eight largest numbers, and returns the
/// one with the least squared error. Every lane of the warp returns it.
template <int kWidth, class T>
SINTER_DEVICE float best_factor(const i8* /*codes*/, const T* /*row*/, float /*least*/,
                                int /*lane*/) {
  return 1;
}
template <int kWidth, class T>
SINTER_DEVICE float best_factor(const e4m3fn* /*codes*/, const T* row, float least, int lane) {
  constexpr float kLargest[] = {448, 416, 384, 352, 320, 288, 256, 240};
  constexpr int kTried = sizeof(kLargest) / sizeof(float);
  float errors[kTried] = {};
#pragma unroll
  for (int i = lane; i < kWidth; i += 32) {
    const float x = divide(widen(row[i]), least);
#pragma unroll
    for (int j = 0; j < kTried; j += 2) {
      const float even = x * (kLargest[j] / kLargest[0]), odd = x * (kLargest[j + 1] / kLargest[0]);
      float low, high;
      widen_pair<e4m3fn>(narrow_pair_saturated<e4m3fn>(even, odd), low, high);
      errors[j] = fmaf(low - even, low - even, errors[j]);
      errors[j + 1] = fmaf(high - odd, high - odd, errors[j + 1]);
    }
  }
  float best = 1, lowest = 0;
#pragma unroll
  for (int j = 0; j < kTried; ++j) {
    const float factor = kLargest[0] / kLargest[j];
    const float error = reduce_lanes<Sum, 32>(errors[j]) * (factor * factor);
    if (error < lowest) best = factor;
    lowest = j == 0 ? error : minimum(error, lowest);
  }
  return best;
}

/// A warp quantizes a row of kWidth elements to 8 bits; every lane returns the row's scale.
template <int kWidth, class C, class T>
SINTER_DEVICE float round_row(C* to, const T* row, int lane) {
  constexpr float kLeast = 0x1p-100f;
  float most = 0;
#pragma unroll
  for (int i = lane; i < kWidth; i += 32) most = maximum(most, fabsf(widen(row[i])));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    most = maximum(most, exchange(most, distance));
  const float least = maximum(most * (1.0f / ScaledRow<C>::kLargest), kLeast);
  const float scale = least * best_factor<kWidth>(to, row, least, lane);
#pragma unroll
  for (int i = lane; i < kWidth; i += 32) narrow_code(divide(widen(row[i]), scale), to[i]);
  return scale;
}

/// Starts a copy of the scales of rows [first, first + kRows) of `count`, a stride apart; zeros
/// from `count` on.
template <int kRows, int kThreads, class RowOf>
SINTER_DEVICE void copy_scales(float* shared, const float* from, i64 stride, i32 first, i32 count,
                               int thread, const RowOf& row_of) {
#pragma unroll
  for (int i = thread; i < kRows; i += kThreads) {
    const bool valid = first + i < count;
    cp_async<4>(shared + i, from + (valid ? row_of(first + i) : 0) * stride, valid);
  }
}
