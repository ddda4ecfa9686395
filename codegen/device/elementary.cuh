// SPDX-License-Identifier: Apache-2.0
// What each ScalarOp computes on the GPU; sinter/scalar_op.h defines the operators. Errors of
// float32 functions are a few ulp. Division and square root use the hardware's full-range
// approximations (at most 2 ulp), as the correctly rounded forms have a slow path.
#pragma once

#include "scalar.cuh"

SINTER_DEVICE float infinity() {
#ifdef __CUDACC__
  return __int_as_float(0x7f800000);
#else
  return __builtin_inff();
#endif
}

SINTER_DEVICE float not_a_number() {
#ifdef __CUDACC__
  return __int_as_float(0x7fc00000);
#else
  return __builtin_nanf("");
#endif
}

// Unsigned type for arithmetic on integers of type T, so that overflow wraps.
template <class T>
struct Wrapping {
  typedef u32 type;
};
template <>
struct Wrapping<i64> {
  typedef u64 type;
};
template <>
struct Wrapping<u64> {
  typedef u64 type;
};
template <class T>
SINTER_DEVICE typename Wrapping<T>::type wrapping(T x) {
  return static_cast<typename Wrapping<T>::type>(x);
}

// ---- arithmetic
template <class T>
SINTER_DEVICE T add(T a, T b) {
  return static_cast<T>(wrapping(a) + wrapping(b));
}
SINTER_DEVICE float add(float a, float b) { return a + b; }
SINTER_DEVICE double add(double a, double b) { return a + b; }

template <class T>
SINTER_DEVICE T subtract(T a, T b) {
  return static_cast<T>(wrapping(a) - wrapping(b));
}
SINTER_DEVICE float subtract(float a, float b) { return a - b; }
SINTER_DEVICE double subtract(double a, double b) { return a - b; }
/// a - b without contraction: if a is a product, the compiler must not form an FMA.
SINTER_DEVICE float difference(float a, float b) {
#ifdef __CUDACC__
  return __fsub_rn(a, b);
#else
  return a - b;
#endif
}

template <class T>
SINTER_DEVICE T multiply(T a, T b) {
  return static_cast<T>(wrapping(a) * wrapping(b));
}
SINTER_DEVICE float multiply(float a, float b) { return a * b; }
SINTER_DEVICE double multiply(double a, double b) { return a * b; }

template <class T>
SINTER_DEVICE T negate(T a) {
  return static_cast<T>(wrapping(T(0)) - wrapping(a));
}
SINTER_DEVICE float negate(float a) { return -a; }
SINTER_DEVICE double negate(double a) { return -a; }

/// Truncates; zero for b == 0.
template <class T>
SINTER_DEVICE T divide(T a, T b) {
  if (b == T(0)) return T(0);
  if (b == static_cast<T>(-1) && static_cast<T>(-1) < T(0)) return negate(a);
  return static_cast<T>(a / b);
}
SINTER_DEVICE float divide(float a, float b) {
#ifdef __CUDACC__
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a / b;
#endif
}
SINTER_DEVICE double divide(double a, double b) { return a / b; }

SINTER_DEVICE float quotient_to_nearest(float a, float b) { return a / b; }
SINTER_DEVICE double quotient_to_nearest(double a, double b) { return a / b; }
/// a / b to nearest from `inverse`, 1 / b rounded to nearest, for b in [2^-101, infinity]. One
/// correction by the remainder (Markstein, IBM J. Res. Dev. 34, 1990). If the remainder is NaN, an
/// operand or the product is not finite, and the product is right. If a or the quotient is below
/// 2^-100, the remainder may be lost; the error is then at most 1 ulp.
SINTER_DEVICE float quotient_to_nearest(float a, float b, float inverse) {
  const float product = a * inverse;
  const float corrected = fmaf(fmaf(-product, b, a), inverse, product);
  return corrected == corrected ? corrected : product;
}

/// The remainder of truncated division; it has the dividend's sign.
template <class T>
SINTER_DEVICE T remainder_truncated(T a, T b) {
  if (b == T(0)) return T(0);
  if (b == static_cast<T>(-1) && static_cast<T>(-1) < T(0)) return T(0);
  return static_cast<T>(a % b);
}
SINTER_DEVICE float remainder_truncated(float a, float b) { return fmodf(a, b); }
SINTER_DEVICE double remainder_truncated(double a, double b) { return fmod(a, b); }

/// The remainder of floored division; it has the divisor's sign, also if zero.
template <class T>
SINTER_DEVICE T remainder_floored(T a, T b) {
  const T r = remainder_truncated(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? add(r, b) : r;
}
SINTER_DEVICE float remainder_floored(float a, float b) {
  const float r = fmodf(a, b);
  if (r == 0.0f) return copysignf(r, b);
  return (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
SINTER_DEVICE double remainder_floored(double a, double b) {
  const double r = fmod(a, b);
  if (r == 0.0) return copysign(r, b);
  return (r < 0.0) != (b < 0.0) ? r + b : r;
}

/// Returns x, hidden from the optimizer. ptxas 13.0 merges two 32-bit integer minima or maxima into
/// one instruction and loses the sign of a negated operand: max(max(a, -b), -c) compares b (wrong
/// on an H200, sm_90).
template <class T>
SINTER_DEVICE T opaque(T x) {
  return x;
}
#ifdef __CUDACC__
SINTER_DEVICE i32 opaque(i32 x) {
  i32 result;
  asm("vsub.s32.s32.s32 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(0));
  return result;
}
SINTER_DEVICE u32 opaque(u32 x) {
  u32 result;
  asm("vsub.u32.u32.u32 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(0));
  return result;
}
#endif

template <class T>
SINTER_DEVICE T minimum(T a, T b) {
  a = opaque(a);
  b = opaque(b);
  return a < b || a != a ? a : b;
}
template <class T>
SINTER_DEVICE T maximum(T a, T b) {
  a = opaque(a);
  b = opaque(b);
  return a > b || a != a ? a : b;
}
#ifdef __CUDACC__
SINTER_DEVICE float minimum(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
SINTER_DEVICE float maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
#endif

template <class T>
SINTER_DEVICE T absolute(T a) {
  return a < T(0) ? negate(a) : a;
}
SINTER_DEVICE float absolute(float a) { return fabsf(a); }
SINTER_DEVICE double absolute(double a) { return fabs(a); }

/// -1, 0 or 1; NaN stays NaN.
template <class T>
SINTER_DEVICE T sign_of(T a) {
  return a > T(0) ? T(1) : a < T(0) ? static_cast<T>(-1) : a;
}

template <class T>
SINTER_DEVICE T power(T base, T exponent) {
  if (exponent < T(0)) {
    if (base == T(1)) return T(1);
    if (base == static_cast<T>(-1)) return exponent % 2 == 0 ? T(1) : static_cast<T>(-1);
    return T(0);
  }
  T result = T(1);
  for (u64 e = static_cast<u64>(exponent); e != 0; e >>= 1) {
    if (e & 1) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}
SINTER_DEVICE float power(float a, float b) { return powf(a, b); }
SINTER_DEVICE double power(double a, double b) { return pow(a, b); }
template <class T>
SINTER_DEVICE T squared(T a) {
  return multiply(a, a);
}
template <class T>
SINTER_DEVICE T cubed(T a) {
  return multiply(multiply(a, a), a);
}

// ---- rounding: integers are unchanged
template <class T>
SINTER_DEVICE T round_down(T a) {
  return a;
}
SINTER_DEVICE float round_down(float a) { return floorf(a); }
SINTER_DEVICE double round_down(double a) { return floor(a); }
template <class T>
SINTER_DEVICE T round_up(T a) {
  return a;
}
SINTER_DEVICE float round_up(float a) { return ceilf(a); }
SINTER_DEVICE double round_up(double a) { return ceil(a); }
template <class T>
SINTER_DEVICE T round_to_even(T a) {
  return a;
}
SINTER_DEVICE float round_to_even(float a) { return rintf(a); }
SINTER_DEVICE double round_to_even(double a) { return rint(a); }

// ---- functions of floats
SINTER_DEVICE float square_root(float a) {
#ifdef __CUDACC__
  float result;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
#else
  return sqrtf(a);
#endif
}
SINTER_DEVICE double square_root(double a) { return sqrt(a); }

SINTER_DEVICE float inverse_square_root(float a) {
#ifdef __CUDACC__
  float result;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
#else
  return 1.0f / sqrtf(a);
#endif
}
SINTER_DEVICE double inverse_square_root(double a) { return 1.0 / sqrt(a); }

SINTER_DEVICE float reciprocal(float a) {
#ifdef __CUDACC__
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
#else
  return 1.0f / a;
#endif
}
SINTER_DEVICE double reciprocal(double a) { return 1.0 / a; }
SINTER_DEVICE float reciprocal_to_nearest(float a) { return 1.0f / a; }
/// Reciprocal, in one instruction, of an operand that is far from zero and infinity.
SINTER_DEVICE float reciprocal_of_normal(float a) {
#ifdef __CUDACC__
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
#else
  return 1.0f / a;
#endif
}

SINTER_DEVICE float exponential(float a) { return expf(a); }
SINTER_DEVICE double exponential(double a) { return exp(a); }
SINTER_DEVICE float logarithm(float a) { return logf(a); }
SINTER_DEVICE double logarithm(double a) { return log(a); }

SINTER_DEVICE float arc_tangent(float a) { return atanf(a); }
SINTER_DEVICE double arc_tangent(double a) { return atan(a); }
SINTER_DEVICE float exponential_minus_one(float a) { return expm1f(a); }
SINTER_DEVICE double exponential_minus_one(double a) { return expm1(a); }
SINTER_DEVICE float logarithm_of_one_plus(float a) { return log1pf(a); }
SINTER_DEVICE double logarithm_of_one_plus(double a) { return log1p(a); }

// erf and tanh as x * P(x^2) / Q(x^2), fitted for least relative error (4e-7) over the range where
// they are not 1 in float32. Beyond it they are exactly 1, so that 1 + erf(x) is zero in GELU's
// tail. Branch-free and half as long as the toolkit's.
SINTER_DEVICE float one_beyond(float a, float end, float y) {
  y = a > end ? 1.0f : y;
  return a < -end ? -1.0f : y;
}
SINTER_DEVICE float error_function(float a) {
  const float x = minimum(maximum(a, -3.9f), 3.9f);
  const float s = x * x;
  float p = fmaf(s, 2.06648792e-06f, 0.000285061193f);
  p = fmaf(p, s, 0.00373828784f);
  p = fmaf(p, s, 0.0526679046f);
  p = fmaf(p, s, 0.189665422f);
  p = fmaf(p, s, 1.12837911f);
  float q = fmaf(s, 3.82701182e-05f, 0.0011573626f);
  q = fmaf(q, s, 0.0149141606f);
  q = fmaf(q, s, 0.113818385f);
  q = fmaf(q, s, 0.501419365f);
  q = fmaf(q, s, 1.0f);
  return one_beyond(a, 3.9f, x * p * reciprocal_of_normal(q));
}
SINTER_DEVICE double error_function(double a) { return erf(a); }
SINTER_DEVICE float hyperbolic_tangent(float a) {
  const float x = minimum(maximum(a, -9.01f), 9.01f);
  const float s = x * x;
  float p = fmaf(s, -1.22249407e-11f, 3.0613915e-08f);
  p = fmaf(p, s, 2.80194508e-05f);
  p = fmaf(p, s, 0.00386892143f);
  p = fmaf(p, s, 0.13680388f);
  p = fmaf(p, s, 1.0f);
  float q = fmaf(s, 1.28820523e-06f, 0.000393967814f);
  q = fmaf(q, s, 0.02724801f);
  q = fmaf(q, s, 0.470137209f);
  q = fmaf(q, s, 1.0f);
  return one_beyond(a, 9.01f, x * p * reciprocal_of_normal(q));
}
SINTER_DEVICE double hyperbolic_tangent(double a) { return tanh(a); }

// Sine and cosine: subtract the nearest multiple q of pi / 2, then evaluate a polynomial on [-pi/4,
// pi/4] (least-squares fit, relative error 4e-9). Pi / 2 is split in three parts, which is exact
// enough while q has 16 bits: relative error 1.6e-7 overall. Larger arguments are rare and call the
// toolkit's long function, which is not inlined.
#ifdef __CUDACC__
__device__ __noinline__ float sine_of_large(float a) { return sinf(a); }
__device__ __noinline__ float cosine_of_large(float a) { return cosf(a); }
#else
inline float sine_of_large(float a) { return sinf(a); }
inline float cosine_of_large(float a) { return cosf(a); }
#endif
/// sin(a + quarters * pi / 2).
SINTER_DEVICE float shifted_sine(float a, int quarters) {
  const float q = rintf(a * 0.636619772f);
  float r = fmaf(q, -1.57079637f, a);
  r = fmaf(q, 4.37113883e-08f, r);
  r = fmaf(q, 1.71512451e-15f, r);
  const int quadrant = static_cast<int>(q) + quarters;
  const float s = r * r;
  float odd = fmaf(s, -0.000195152796f, 0.0083321603f);
  odd = fmaf(odd, s, -0.166666552f);
  odd = fmaf(odd * s, r, r);
  float even = fmaf(s, 2.44331513e-05f, -0.00138873165f);
  even = fmaf(even, s, 0.0416666456f);
  even = fmaf(even, s, -0.5f);
  even = fmaf(even, s, 1.0f);
  const float value = (quadrant & 1) != 0 ? even : odd;
  return (quadrant & 2) != 0 ? -value : value;
}
SINTER_DEVICE float sine(float a) {
  if (!(fabsf(a) < 65536.0f)) return sine_of_large(a);
  return shifted_sine(a, 0);
}
SINTER_DEVICE double sine(double a) { return sin(a); }
SINTER_DEVICE float cosine(float a) {
  if (!(fabsf(a) < 65536.0f)) return cosine_of_large(a);
  return shifted_sine(a, 1);
}
SINTER_DEVICE double cosine(double a) { return cos(a); }

// ---- tests
template <class T>
SINTER_DEVICE bool is_nan(T a) {
  return a != a;
}
SINTER_DEVICE bool is_infinite(float a) { return fabsf(a) == infinity(); }
SINTER_DEVICE bool is_infinite(double a) { return fabs(a) == static_cast<double>(infinity()); }

// ---- bits of integers
template <class T>
SINTER_DEVICE T bits_of_both(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
SINTER_DEVICE T bits_of_either(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
SINTER_DEVICE T bits_of_one(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
SINTER_DEVICE T bits_inverted(T a) {
  return static_cast<T>(~a);
}
/// Zero if b is negative or at least the width of T.
template <class T>
SINTER_DEVICE T shift_left(T a, T b) {
  if (static_cast<u64>(static_cast<i64>(b)) >= 8 * sizeof(T)) return T(0);
  return static_cast<T>(static_cast<u64>(a) << static_cast<int>(b));
}
/// Arithmetic shift; if b is negative or at least the width of T, all bits are the sign.
template <class T>
SINTER_DEVICE T shift_right(T a, T b) {
  const T sign = a < T(0) ? static_cast<T>(-1) : T(0);
  if (static_cast<u64>(static_cast<i64>(b)) >= 8 * sizeof(T)) return sign;
  return static_cast<T>(a >> static_cast<int>(b));
}

/// The bits of `x` as a value of another type of the same size.
template <class To, class From>
SINTER_DEVICE To same_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast between sizes");
  union {
    From from;
    To to;
  } bits;
  bits.from = x;
  return bits.to;
}
template <>
SINTER_DEVICE bool same_bits<bool, u8>(u8 x) {
  return x != 0;
}
template <>
SINTER_DEVICE bool same_bits<bool, i8>(i8 x) {
  return x != 0;
}

// ---- casts between compute types
template <class T>
SINTER_DEVICE T lowest_value() {
  return static_cast<T>(-1) > T(0) ? T(0) : static_cast<T>(u64(1) << (8 * sizeof(T) - 1));
}
template <class T>
SINTER_DEVICE T highest_value() {
  return static_cast<T>(-1) > T(0) ? static_cast<T>(~u64(0))
                                   : static_cast<T>((u64(1) << (8 * sizeof(T) - 1)) - 1);
}
template <>
SINTER_DEVICE bool lowest_value<bool>() {
  return false;
}
template <>
SINTER_DEVICE bool highest_value<bool>() {
  return true;
}
template <>
SINTER_DEVICE float lowest_value<float>() {
  return -infinity();
}
template <>
SINTER_DEVICE float highest_value<float>() {
  return infinity();
}
template <>
SINTER_DEVICE double lowest_value<double>() {
  return -static_cast<double>(infinity());
}
template <>
SINTER_DEVICE double highest_value<double>() {
  return static_cast<double>(infinity());
}

#ifdef __CUDACC__
/// Converts a float to integer type To of 1, 2 or 4 bytes. Saturates; NaN gives zero.
#define SINTER_CONVERT_FLOAT(To, rounding, x)                          \
  [&] {                                                                \
    constexpr bool kSigned = static_cast<To>(-1) < To(0);              \
    i32 result;                                                        \
    if constexpr (sizeof(To) == 1 && kSigned)                          \
      asm("cvt." rounding ".s8.f32 %0, %1;" : "=r"(result) : "f"(x));  \
    else if constexpr (sizeof(To) == 1)                                \
      asm("cvt." rounding ".u8.f32 %0, %1;" : "=r"(result) : "f"(x));  \
    else if constexpr (sizeof(To) == 2 && kSigned)                     \
      asm("cvt." rounding ".s16.f32 %0, %1;" : "=r"(result) : "f"(x)); \
    else if constexpr (sizeof(To) == 2)                                \
      asm("cvt." rounding ".u16.f32 %0, %1;" : "=r"(result) : "f"(x)); \
    else if constexpr (kSigned)                                        \
      asm("cvt." rounding ".s32.f32 %0, %1;" : "=r"(result) : "f"(x)); \
    else                                                               \
      asm("cvt." rounding ".u32.f32 %0, %1;" : "=r"(result) : "f"(x)); \
    return static_cast<To>(result);                                    \
  }()
#endif

template <class To>
struct Convert {
  /// Integers wrap.
  template <class From>
  SINTER_DEVICE static To of(From x) {
    return static_cast<To>(x);
  }
  /// Floats truncate and saturate; NaN gives zero.
  template <class From>
  SINTER_DEVICE static To truncate(From x) {
    if (!(x > static_cast<From>(lowest_value<To>()))) return x != x ? To(0) : lowest_value<To>();
    return x >= static_cast<From>(highest_value<To>()) ? highest_value<To>() : static_cast<To>(x);
  }
#ifdef __CUDACC__
  /// For results of at most 32 bits: one instruction.
  SINTER_DEVICE static To of(float x) {
    if constexpr (sizeof(To) > 4) return truncate(x);
    return SINTER_CONVERT_FLOAT(To, "rzi", x);
  }
#else
  SINTER_DEVICE static To of(float x) { return truncate(x); }
#endif
  SINTER_DEVICE static To of(double x) { return truncate(x); }
};
template <>
struct Convert<bool> {
  template <class From>
  SINTER_DEVICE static bool of(From x) {
    return x != From(0);
  }
};
template <>
struct Convert<float> {
  template <class From>
  SINTER_DEVICE static float of(From x) {
    return static_cast<float>(x);
  }
};
template <>
struct Convert<double> {
  template <class From>
  SINTER_DEVICE static double of(From x) {
    return static_cast<double>(x);
  }
};
template <class To, class From>
SINTER_DEVICE To convert(From x) {
  return Convert<To>::of(x);
}

/// convert<To>(round_to_even(x)) to an integer of at most 32 bits, in one instruction.
template <class To>
SINTER_DEVICE To convert_rounded(float x) {
#ifdef __CUDACC__
  return SINTER_CONVERT_FLOAT(To, "rni", x);
#else
  return convert<To>(round_to_even(x));
#endif
}
#undef SINTER_CONVERT_FLOAT

/// Converts to float32 with round-to-odd: truncates, and sets the last bit if inexact. Rounding the
/// result to a narrower type equals rounding `x` itself.
SINTER_DEVICE float convert_to_odd(double x) {
  float result = static_cast<float>(x);
  const double nearest = static_cast<double>(result);
  if (x != x || nearest == x) return result;
  u32 bits;
  memcpy(&bits, &result, 4);
  if (fabs(nearest) > fabs(x)) --bits;
  bits |= 1;
  memcpy(&result, &bits, 4);
  return result;
}
template <class T>
SINTER_DEVICE float convert_to_odd(T x) {
  u64 size = x < T(0) ? u64(0) - static_cast<u64>(x) : static_cast<u64>(x);
  int shift = 0;
  while (size >> shift >> 24 != 0) ++shift;
  const u64 kept = size >> shift;
  const u64 odd = kept << shift != size ? kept | 1 : kept;
  const float result = static_cast<float>(odd) * static_cast<float>(u64(1) << shift);
  return x < T(0) ? -result : result;
}
