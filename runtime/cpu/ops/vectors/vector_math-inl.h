// SPDX-License-Identifier: Apache-2.0
// Elementary functions on float32 vectors, for one Highway target. Coefficients are minimax fits of
// the named function on the named interval; errors are relative, before rounding.
#if defined(SINTER_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SINTER_VECTOR_MATH_INL_H_
#undef SINTER_VECTOR_MATH_INL_H_
#else
#define SINTER_VECTOR_MATH_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Results below the smallest normal number become zero.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V exp_f32(D d, V x) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (hn::MaxLanes(D()) == 16) x = hn::Min(hn::Set(d, 89.0f), x);  // a NaN stays
#endif
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  // exp(r) = 1 + r + r^2 p(r) on |r| <= ln(2)/2: 1.9e-9.
  V p = hn::Set(d, 0.0013836834f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.0083748223f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.041668225f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666642f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.4999999f));
  const V one = hn::Set(d, 1.0f);
  const V e = hn::MulAdd(hn::MulAdd(p, r, one), r, one);
  const auto tiny = hn::Lt(x, hn::Set(d, -87.3365402f));
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // The processor scales by 2^n, to infinity above.
  if constexpr (hn::MaxLanes(D()) == 16)
    return hn::IfThenZeroElse(tiny, V{_mm512_scalef_ps(e.raw, n.raw)});
#endif
  const hn::RebindToSigned<D> di;
  // Adds n to the exponent: within the bounds below, e * 2^n is normal. Converting NaN to an
  // integer is undefined; the last line restores NaN from x.
  const auto shifted = hn::ShiftLeft<23>(hn::ConvertTo(di, n));
  V y = hn::BitCast(d, hn::Add(hn::BitCast(di, e), shifted));
  y = hn::IfThenZeroElse(tiny, y);
  return hn::IfThenElse(hn::Le(x, hn::Set(d, 88.7228317f)), y,
                        hn::Add(x, hn::Set(d, std::numeric_limits<float>::infinity())));
}

template <class D, class V = hn::VFromD<D>>
HWY_INLINE V log_f32(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
  const auto bits = hn::BitCast(di, scaled);
  // x = 2^e * m with m in [sqrt(1/2), sqrt(2)).
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const V e = hn::Sub(hn::ConvertTo(d, exponent), hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));
  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  // log(1 + f) = f - f^2/2 + f^3 p(f): 7.5e-10.
  V p = hn::Set(d, 0.067466073f);
  p = hn::MulAdd(p, f, hn::Set(d, -0.11675636f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.11888169f));
  p = hn::MulAdd(p, f, hn::Set(d, -0.12405592f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.14219552f));
  p = hn::MulAdd(p, f, hn::Set(d, -0.16667996f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.20002119f));
  p = hn::MulAdd(p, f, hn::Set(d, -0.25000009f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.33333313f));
  const V f2 = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(p, f), f2);
  y = hn::MulAdd(e, hn::Set(d, 1.42860677e-6f), y);
  y = hn::NegMulAdd(hn::Set(d, 0.5f), f2, y);
  y = hn::MulAdd(e, hn::Set(d, 0.693145752f), hn::Add(f, y));
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()),
                     y);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

/// log(u) + (x - (u - 1)) / u with u = 1 + x rounded; the second term corrects the rounding error
/// of u to first order.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V log1p_f32(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(one, x);
  const V y = log_f32(d, u);
  const V lost = hn::Div(hn::Sub(x, hn::Sub(u, one)), u);
  const auto limit =
      hn::Or(hn::Eq(u, hn::Zero(d)), hn::Eq(u, hn::Set(d, std::numeric_limits<float>::infinity())));
  return hn::IfThenElse(limit, y, hn::Add(y, lost));
}

/// x p(x^2) / q(x^2) with the sign of x, at most 1. x is clamped at `end`, beyond which the
/// function is 1 in float32. Coefficients start with the lowest power.
template <std::size_t kP, std::size_t kQ, class D, class V = hn::VFromD<D>>
HWY_INLINE V odd_rational(D d, V x, float end, const float (&p)[kP], const float (&q)[kQ]) {
  const V a = hn::Min(hn::Abs(x), hn::Set(d, end));
  const V u = hn::Mul(a, a);
  V above = hn::Set(d, p[kP - 1]);
  for (std::size_t i = kP - 1; i-- > 0;) above = hn::MulAdd(above, u, hn::Set(d, p[i]));
  V below = hn::Set(d, q[kQ - 1]);
  for (std::size_t i = kQ - 1; i-- > 0;) below = hn::MulAdd(below, u, hn::Set(d, q[i]));
  const V one = hn::Set(d, 1.0f);
  const V y = hn::CopySign(hn::Min(hn::Div(hn::Mul(a, above), below), one), x);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

/// On |x| <= 3.92: 1.9e-8, 3.4e-7 after rounding.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V erf_f32(D d, V x) {
  constexpr float p[] = {1.1283791f,    0.19040488f,    0.052748468f,
                         0.0037655295f, 0.00028487734f, 2.0500586e-6f};
  constexpr float q[] = {1.0f,         0.50207466f,   0.11410841f,
                         0.014969054f, 0.0011625073f, 3.8091126e-5f};
  return odd_rational(d, x, 3.92f, p, q);
}

/// On |x| <= 9.02: 1.4e-9, 2.9e-7 after rounding.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V tanh_f32(D d, V x) {
  constexpr float p[] = {1.0f,          0.13679929f,   0.0038683459f,
                         2.8007813e-5f, 3.0585813e-8f, -1.2204e-11f};
  constexpr float q[] = {1.0f, 0.47013262f, 0.027245905f, 0.00039386628f, 1.2873905e-6f};
  return odd_rational(d, x, 9.02f, p, q);
}

/// x - n pi.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V subtract_pi(D d, V n, V x) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
  // FMA rounds once: two parts of pi with 24 bits each leave an error of 3e-15 n.
  const V r = hn::NegMulAdd(n, hn::Set(d, 3.14159274f), x);
  return hn::MulAdd(n, hn::Set(d, 8.74227766e-8f), r);
#else
  // The first three parts have few enough bits that their products with n are exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 3.140625f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0.0009670257568359375f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 6.277114152908325e-7f), r);
  return hn::NegMulAdd(n, hn::Set(d, 1.215420125655342e-10f), r);
#endif
}

/// Sine and cosine. Arguments up to 39000 are reduced by multiples of pi. Larger ones go to the C
/// library one by one, so a result does not depend on its neighbours.
template <bool kSine, class D, class V = hn::VFromD<D>>
HWY_INLINE V sincos_f32(D d, V x) {
  constexpr float kMost = 39000.0f;
  const hn::RebindToSigned<D> di;
  // x = k pi + r for the sine. For the cosine x = (k + 1/2) pi + r, which gives -sin(r) with the
  // sign of k.
  const V turns = hn::Mul(x, hn::Set(d, 0.318309886f));
  V whole = hn::Round(turns);
  V n = whole;
  if constexpr (!kSine) {
    whole = hn::Round(hn::Sub(turns, hn::Set(d, 0.5f)));
    n = hn::Add(whole, hn::Set(d, 0.5f));
  }
  const V r = subtract_pi(d, n, x);
  // sin(r) = r + r^3 p(r^2) on |r| <= pi/2: 6.2e-9.
  const V u = hn::Mul(r, r);
  V p = hn::Set(d, 2.6054811e-6f);
  p = hn::MulAdd(p, u, hn::Set(d, -0.00019809474f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.0083330646f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.1666666f));
  const V y = hn::MulAdd(hn::Mul(p, u), r, r);
  auto sign = hn::ShiftLeft<31>(hn::ConvertTo(di, whole));
  if constexpr (!kSine) sign = hn::Xor(sign, hn::Set(di, std::numeric_limits<std::int32_t>::min()));
  const V reduced = hn::BitCast(d, hn::Xor(hn::BitCast(di, y), sign));
  if (HWY_LIKELY(hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, kMost))))) return reduced;
  HWY_ALIGN float arguments[hn::MaxLanes(D())];
  HWY_ALIGN float results[hn::MaxLanes(D())];
  hn::Store(x, d, arguments);
  hn::Store(reduced, d, results);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i)
    if (!(std::abs(arguments[i]) <= kMost))
      results[i] = kSine ? std::sin(arguments[i]) : std::cos(arguments[i]);
  return hn::Load(d, results);
}

/// atan(x) = x + x^3 p(x^2) on |x| <= 1, pi/2 - atan(1 / x) beyond: 3.6e-7 after rounding.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V atan_f32(D d, V x) {
  const V one = hn::Set(d, 1.0f), a = hn::Abs(x);
  const auto beyond = hn::Gt(a, one);
  const V t = hn::IfThenElse(beyond, hn::Div(one, a), a);
  const V u = hn::Mul(t, t);
  V p = hn::Set(d, 0.00282363896f);
  p = hn::MulAdd(p, u, hn::Set(d, -0.0159569029f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.0425049886f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.0748900920f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.106347933f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.142027363f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.199926957f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.333331018f));
  const V y = hn::MulAdd(hn::Mul(p, u), t, t);
  return hn::CopySign(hn::IfThenElse(beyond, hn::Sub(hn::Set(d, 1.57079633f), y), y), x);
}

/// On |x| <= 1: 2.7e-8.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V sin_small_f32(D d, V x) {
  const V u = hn::Mul(x, x);
  V p = hn::Set(d, -0.00019313187f);
  p = hn::MulAdd(p, u, hn::Set(d, 0.0083302418f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.16666615f));
  return hn::MulAdd(hn::Mul(p, u), x, x);
}

/// On |x| <= 1: 6.0e-10.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V cos_small_f32(D d, V x) {
  const V u = hn::Mul(x, x);
  V p = hn::Set(d, 2.4138115e-5f);
  p = hn::MulAdd(p, u, hn::Set(d, -0.0013883337f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.041666482f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.49999997f));
  return hn::MulAdd(p, u, hn::Set(d, 1.0f));
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#endif
