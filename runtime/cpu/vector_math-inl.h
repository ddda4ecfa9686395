// Elementary functions on float32 vectors, for one Highway target. Coefficients are minimax fits of
// the named function on the named interval; errors are relative, before rounding.
#if defined(SINTER_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SINTER_VECTOR_MATH_INL_H_
#undef SINTER_VECTOR_MATH_INL_H_
#else
#define SINTER_VECTOR_MATH_INL_H_
#endif

#include <cmath>
#include <limits>

#include <hwy/contrib/math/math-inl.h>
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

template <class D, class V = hn::VFromD<D>>
HWY_INLINE V erf_f32(D d, V x) {
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 4.1f));
  // erf(x) = x p(x^2) on |x| <= 1: 1.3e-9.
  const V u = hn::Mul(a, a);
  V p = hn::Set(d, 7.8538578e-5f);
  p = hn::MulAdd(p, u, hn::Set(d, -0.00080101925f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.0051883277f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.026853811f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.11283585f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.37612626f));
  p = hn::MulAdd(p, u, hn::Set(d, 1.1283791f));
  // log(1 - erf(x)) = q(x) on [0.9, 4.1]: 1.7e-9 of erf(x).
  V q = hn::Set(d, 0.00019822076f);
  q = hn::MulAdd(q, a, hn::Set(d, -0.0030655004f));
  q = hn::MulAdd(q, a, hn::Set(d, 0.022315251f));
  q = hn::MulAdd(q, a, hn::Set(d, -0.10411375f));
  q = hn::MulAdd(q, a, hn::Set(d, -0.636976f));
  q = hn::MulAdd(q, a, hn::Set(d, -1.1277972f));
  q = hn::MulAdd(q, a, hn::Set(d, -0.00016643861f));
  const V far = hn::CopySign(hn::Sub(hn::Set(d, 1.0f), exp_f32(d, q)), x);
  const V y = hn::IfThenElse(hn::Le(a, hn::Set(d, 1.0f)), hn::Mul(x, p), far);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

template <class D, class V = hn::VFromD<D>>
HWY_INLINE V tanh_f32(D d, V x) {
  const V a = hn::Abs(x);
  // tanh(x) = x + x^3 p(x^2) on |x| <= 0.625: 4.2e-9.
  const V u = hn::Mul(a, a);
  V p = hn::Set(d, -0.0057170363f);
  p = hn::MulAdd(p, u, hn::Set(d, 0.020650579f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.053743497f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.13331491f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.33333284f));
  const V near = hn::MulAdd(hn::Mul(p, u), x, x);
  const V e = exp_f32(d, hn::Add(a, a));
  const V one = hn::Set(d, 1.0f);
  const V far = hn::CopySign(hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one))), x);
  const V y = hn::IfThenElse(hn::Le(a, hn::Set(d, 0.625f)), near, far);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

/// Highway's sine and cosine reduce arguments up to 39000; larger ones go to the C library.
template <bool kSine, class D, class V = hn::VFromD<D>>
HWY_INLINE V sincos_f32(D d, V x) {
  if (hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, 39000.0f))))
    return kSine ? hn::Sin(d, x) : hn::Cos(d, x);
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(x, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i)
    lanes[i] = kSine ? std::sin(lanes[i]) : std::cos(lanes[i]);
  return hn::Load(d, lanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#endif
