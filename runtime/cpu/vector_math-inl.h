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

template <class D, class V = hn::VFromD<D>>
HWY_INLINE V exp_f32(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Beyond these bounds the result is infinite or zero; they keep the exponent within two steps.
  const V clamped = hn::Min(hn::Max(x, hn::Set(d, -105.0f)), hn::Set(d, 89.5f));
  const V n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  // exp(r) = 1 + r + r^2 p(r) on |r| <= ln(2)/2: 1.9e-9.
  V p = hn::Set(d, 0.0013836834f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.0083748223f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.041668225f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666642f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.4999999f));
  const V e = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const V scale1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V scale2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  const V result = hn::Mul(hn::Mul(e, scale1), scale2);
  return hn::IfThenElse(hn::Eq(x, x), result, x);
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

/// x p(x^2) / q(x^2) with the sign of x, at most 1; x is cut at `end`, from where the function is 1
/// in float32. Coefficients from the lowest power up.
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

/// Sine and cosine. Arguments up to kLargest are reduced by multiples of pi in four parts, the
/// first three of so few bits that their products are exact; larger ones go to the C library.
template <bool kSine, class D, class V = hn::VFromD<D>>
HWY_INLINE V sincos_f32(D d, V x) {
  constexpr float kLargest = 39000.0f;
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, kLargest))))) {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(x, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i)
      lanes[i] = kSine ? std::sin(lanes[i]) : std::cos(lanes[i]);
    return hn::Load(d, lanes);
  }
  const hn::RebindToSigned<D> di;
  // x = k pi + r, or (k + 1/2) pi + r for the cosine, which is then -sin(r) with the sign of k.
  const V turns = hn::Mul(x, hn::Set(d, 0.318309886f));
  const V half = hn::Set(d, kSine ? 0.0f : 0.5f);
  const V whole = hn::Round(hn::Sub(turns, half));
  const V n = hn::Add(whole, half);
  V r = hn::NegMulAdd(n, hn::Set(d, 3.140625f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0.0009670257568359375f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 6.277114152908325e-7f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 1.215420125655342e-10f), r);
  // sin(r) = r + r^3 p(r^2) on |r| <= pi/2: 6.2e-9.
  const V u = hn::Mul(r, r);
  V p = hn::Set(d, 2.6054811e-6f);
  p = hn::MulAdd(p, u, hn::Set(d, -0.00019809474f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.0083330646f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.1666666f));
  const V y = hn::MulAdd(hn::Mul(p, u), r, r);
  auto sign = hn::ShiftLeft<31>(hn::ConvertTo(di, whole));
  if (!kSine) sign = hn::Xor(sign, hn::Set(di, std::numeric_limits<std::int32_t>::min()));
  return hn::BitCast(d, hn::Xor(hn::BitCast(di, y), sign));
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#endif
