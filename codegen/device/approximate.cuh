// SPDX-License-Identifier: Apache-2.0
// Cheaper forms of functions, for results that the graph rounds to 16 bits and for arguments of
// known range. codegen/emit/approximations.cpp decides where they are used and states their error
// bounds. Tests check these over all float16 values; `--math precise` uses none of them.
#pragma once

#include "elementary.cuh"

/// 2^a; flushes results below 2^-126 to zero. Relative error 2^-22.
SINTER_DEVICE float power_of_two(float a) {
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
#else
  return exp2f(a) < 1.17549435e-38f ? 0.0f : exp2f(a);
#endif
}

// ---- arguments of known range
/// sin(a) for |a| <= 1.001; relative error 1e-7.
SINTER_DEVICE float sine_within_one(float a) {
  const float s = a * a;
  float p = fmaf(s, -0.000192903695f, 0.00832984783f);
  p = fmaf(p, s, -0.166665956f);
  return fmaf(p * s, a, a);
}
/// cos(a) for |a| <= 1.001; relative error 5e-7.
SINTER_DEVICE float cosine_within_one(float a) {
  const float s = a * a;
  float p = fmaf(s, -0.00133812f, 0.04163338f);
  p = fmaf(p, s, -0.49999283f);
  return fmaf(p, s, 0.99999975f);
}
/// a / b for 2^-100 <= |b| <= 2^100; 2 ulp.
SINTER_DEVICE float divide_by_normal(float a, float b) { return a * reciprocal_of_normal(b); }

// ---- results of 16 bits and 8 bits
/// sin(a) for |a| <= 1.001; relative error 2^-17.2.
SINTER_DEVICE float short_sine_within_one(float a) {
  const float s = a * a;
  float p = fmaf(s, 0.00803591404f, -0.166552976f);
  p = fmaf(p, s, 0.999993384f);
  return p * a;
}
/// sin(a + pi * half) for |a| <= 2^20, with `half` 0 or 0.5. Range reduction in half turns: adding
/// 1.5 * 2^23 rounds to an integer. 1 / pi is split in two parts, so that the first product is
/// exact before the integer is subtracted.
SINTER_DEVICE float short_sine_of_turns(float a, float half) {
  constexpr float kRound = 12582912.0f;
  const float t =
      half == 0.0f ? fmaf(a, 0.318309873f, kRound) : fmaf(a, 0.318309873f, half) + kRound;
  float y = fmaf(a, 0.318309873f, half - (t - kRound));
  y = fmaf(a, 1.28412766e-08f, y);
  const float s = y * y;
  float p = fmaf(s, -0.55838865f, 2.5436027f);
  p = fmaf(p, s, -5.16736746f);
  p = fmaf(p, s, 3.14158964f);
  return same_bits<float>(same_bits<u32>(p * y) ^ (same_bits<u32>(t) << 31));
}
/// sin(a) for |a| <= 2^20; relative error 2^-18; absolute error 2^-29 at zeros other than 0.
SINTER_DEVICE float short_sine(float a) { return short_sine_of_turns(a, 0.0f); }
/// cos(a) for |a| <= 2^20; relative error 2^-16.9.
SINTER_DEVICE float short_cosine(float a) { return short_sine_of_turns(a, 0.5f); }
/// exp(a), below 2^-126 zero; relative error 2^-17.
SINTER_DEVICE float short_exponential(float a) { return power_of_two(a * 1.44269504f); }
/// tanh(a) as a * P(a^2) / Q(a^2), clamped where it is 1 in 16 bits; relative error 2^-15.6.
SINTER_DEVICE float short_hyperbolic_tangent(float a) {
  const float x = minimum(maximum(a, -6.0f), 6.0f);
  const float s = x * x;
  float p = fmaf(s, 0.0015146041f, 0.114831224f);
  p = fmaf(p, s, 0.999992728f);
  float q = fmaf(s, 5.62734385e-05f, 0.0176113285f);
  q = fmaf(q, s, 0.448114514f);
  q = fmaf(q, s, 1.0f);
  return x * p * reciprocal_of_normal(q);
}
/// erf(a) as a * P(a^2) / Q(a^2), clamped likewise; relative error 2^-18.
SINTER_DEVICE float short_error_function(float a) {
  const float x = minimum(maximum(a, -3.3f), 3.3f);
  const float s = x * x;
  float p = fmaf(s, 0.000744554156f, 0.043125622f);
  p = fmaf(p, s, 0.154752046f);
  p = fmaf(p, s, 1.1283772f);
  float q = fmaf(s, 0.00925417524f, 0.0949509293f);
  q = fmaf(q, s, 0.470491171f);
  q = fmaf(q, s, 1.0f);
  return x * p * reciprocal_of_normal(q);
}
/// 1 + erf(a), a factor of GELU, as 2 to a polynomial: the sum would cancel the tail. Relative
/// error 2^-17 for a >= -4.5, absolute 1e-10 below.
SINTER_DEVICE float short_one_plus_error_function(float a) {
  const float x = minimum(absolute(a), 12.0f);
  float p = fmaf(x, -2.04114950e-05f, 4.88455851e-04f);
  p = fmaf(p, x, -5.24323619e-03f);
  p = fmaf(p, x, 3.39844089e-02f);
  p = fmaf(p, x, -1.52568552e-01f);
  p = fmaf(p, x, -9.16956690e-01f);
  p = fmaf(p, x, -1.62810963f);
  p = fmaf(p, x, 4.55480430e-06f);
  const float tail = power_of_two(p);
  return a < 0.0f ? tail : 2.0f - tail;
}
/// GELU, a / 2 * (1 + erf(a / sqrt(2))), with the normal tail as 2 to a polynomial. Relative error
/// 2^-16 for a >= -5, absolute 1e-10 below.
SINTER_DEVICE float short_gelu(float a) {
  const float x = minimum(absolute(a), 8.0f);
  float p = fmaf(x, 2.9458135e-05f, -0.000708782638f);
  p = fmaf(p, x, 0.00774601381f);
  p = fmaf(p, x, -0.0526062958f);
  p = fmaf(p, x, -0.459625453f);
  p = fmaf(p, x, -1.15086722f);
  p = fmaf(p, x, -1.00001764f);
  return fmaf(-x, power_of_two(p), maximum(a, 0.0f));
}
/// GELU for a result that is rounded to fp8. Relative error 2^-8 for a >= -4, absolute 2e-4
/// below.
SINTER_DEVICE float gelu_for_float8(float a) {
  const float x = minimum(absolute(a), 8.0f);
  float p = fmaf(x, -0.016417932f, -0.53035584f);
  p = fmaf(p, x, -1.1025065f);
  p = fmaf(p, x, -1.005299f);
  return fmaf(-x, power_of_two(p), maximum(a, 0.0f));
}
/// 1 + tanh(a), a factor of GELU's tanh form, by the exponential; relative error 2^-20.
SINTER_DEVICE float short_one_plus_hyperbolic_tangent(float a) {
  return reciprocal_of_normal(fmaf(0.5f, power_of_two(a * -2.88539008f), 0.5f));
}

// ---- 8-bit integers
/// Rounds x to the nearest integer (ties to even), adds the integer `zero` and clamps to [low,
/// high]. NaN gives zero, as in a conversion. All magnitudes are below 2^22. Adding 1.5 * 2^23
/// rounds, as its last mantissa bit has weight 1.
SINTER_DEVICE i32 rounded_within(float x, float zero, float low, float high) {
  constexpr float kLastPlaceOne = 12582912.0f;
  const float sum = fminf(fmaxf(x, low - zero), high - zero) + kLastPlaceOne;
  i32 bits;
  memcpy(&bits, &sum, sizeof(bits));
  return x != x ? 0 : bits - 0x4b400000 + static_cast<i32>(zero);
}
SINTER_DEVICE i8 rounded_to_i8(float x, float zero = 0.0f) {
  return static_cast<i8>(rounded_within(x, zero, -128.0f, 127.0f));
}
SINTER_DEVICE u8 rounded_to_u8(float x, float zero = 0.0f) {
  return static_cast<u8>(rounded_within(x, zero, 0.0f, 255.0f));
}
