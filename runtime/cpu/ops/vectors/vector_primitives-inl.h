// SPDX-License-Identifier: Apache-2.0
// The scalar primitives on float32 vectors, for one Highway target.
#if defined(SINTER_VECTOR_PRIMITIVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SINTER_VECTOR_PRIMITIVES_INL_H_
#undef SINTER_VECTOR_PRIMITIVES_INL_H_
#else
#define SINTER_VECTOR_PRIMITIVES_INL_H_
#endif

#include <cstring>

#include <hwy/highway.h>

#include "runtime/cpu/ops/float8_ops.h"
#include "runtime/cpu/ops/vectors/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::VFromD<D>;

/// Rounds to the nearest values of an 8-bit float type.
template <DType kType>
HWY_INLINE V round_float8(D d, V a) {
  using Numbers = Float8Numbers<kType>;
  const hn::RebindToUnsigned<D> du;
  const V magnitude = hn::Abs(a);
  const auto bits = hn::BitCast(du, magnitude);
  constexpr std::uint32_t kHalf = (1U << (Numbers::kShift - 1)) - 1;
  const auto odd = hn::And(hn::ShiftRight<Numbers::kShift>(bits), hn::Set(du, 1U));
  const auto up = hn::Add(hn::Add(bits, hn::Set(du, kHalf)), odd);
  const V normal =
      hn::BitCast(d, hn::ShiftLeft<Numbers::kShift>(hn::ShiftRight<Numbers::kShift>(up)));
  const V aligned = hn::Set(d, Numbers::kAligned);
  const V subnormal = hn::Sub(hn::Add(magnitude, aligned), aligned);
  const V number =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, Numbers::kSmallestNormal)), subnormal, normal);
  const V fitting = hn::IfThenElse(hn::Le(number, hn::Set(d, Numbers::kLargest)), number,
                                   hn::Set(d, Numbers::kTooLarge));
  const V rounded = hn::IfThenElse(hn::Eq(a, a), hn::CopySign(fitting, a), a);
  return is_unsigned_zero(Numbers::kFormat) ? hn::Add(rounded, hn::Zero(d)) : rounded;
}

// One struct per primitive. min and max propagate NaN.
#define SINTER_UNARY(name, expression)    \
  struct name {                           \
    static HWY_INLINE V apply(D d, V a) { \
      (void)d;                            \
      return expression;                  \
    }                                     \
  };
#define SINTER_BINARY(name, expression)        \
  struct name {                                \
    static HWY_INLINE V apply(D d, V a, V b) { \
      (void)d;                                 \
      return expression;                       \
    }                                          \
  };
SINTER_BINARY(AddOp, hn::Add(a, b))
SINTER_BINARY(SubOp, hn::Sub(a, b))
SINTER_BINARY(MulOp, hn::Mul(a, b))
SINTER_BINARY(DivOp, hn::Div(a, b))
#if (HWY_ARCH_X86 || HWY_ARCH_ARM) && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
// If an operand is NaN, x86's min and max return the second operand, ARM's return NaN.
SINTER_BINARY(MinOp, hn::IfThenElse(hn::Eq(a, a), hn::Min(a, b), a))
SINTER_BINARY(MaxOp, hn::IfThenElse(hn::Eq(a, a), hn::Max(a, b), a))
#else
SINTER_BINARY(MinOp,
              hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Eq(b, b), hn::Min(a, b), b), a))
SINTER_BINARY(MaxOp,
              hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Eq(b, b), hn::Max(a, b), b), a))
#endif
SINTER_UNARY(NegOp, hn::Neg(a))
SINTER_UNARY(AbsOp, hn::Abs(a))
SINTER_UNARY(SignOp, hn::IfThenElse(hn::Gt(a, hn::Zero(d)), hn::Set(d, 1.0f),
                                    hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Set(d, -1.0f), a)))
SINTER_UNARY(FloorOp, hn::Floor(a))
SINTER_UNARY(CeilOp, hn::Ceil(a))
SINTER_UNARY(RoundOp, hn::Round(a))
SINTER_UNARY(SqrtOp, hn::Sqrt(a))
SINTER_UNARY(RsqrtOp, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(a)))
SINTER_UNARY(ReciprocalOp, hn::Div(hn::Set(d, 1.0f), a))
SINTER_UNARY(ExpOp, exp_f32(d, a))
SINTER_UNARY(LogOp, log_f32(d, a))
SINTER_UNARY(Log1pOp, log1p_f32(d, a))
SINTER_UNARY(ErfOp, erf_f32(d, a))
SINTER_UNARY(TanhOp, tanh_f32(d, a))
SINTER_UNARY(AtanOp, atan_f32(d, a))
SINTER_UNARY(SinOp, (sincos_f32<true>(d, a)))
SINTER_UNARY(CosOp, (sincos_f32<false>(d, a)))
SINTER_UNARY(ToE4M3FNOp, round_float8<DType::kFloat8E4M3FN>(d, a))
SINTER_UNARY(ToE5M2Op, round_float8<DType::kFloat8E5M2>(d, a))
SINTER_UNARY(ToE4M3FNUZOp, round_float8<DType::kFloat8E4M3FNUZ>(d, a))
SINTER_UNARY(ToE5M2FNUZOp, round_float8<DType::kFloat8E5M2FNUZ>(d, a))
SINTER_UNARY(SmallSinOp, sin_small_f32(d, a))
SINTER_UNARY(SmallCosOp, cos_small_f32(d, a))
#undef SINTER_UNARY
#undef SINTER_BINARY

// X(name) for each ScalarOp::kname that is implemented by nameOp alone.
#define SINTER_FLOAT8_OPS(X) X(ToE4M3FN) X(ToE5M2) X(ToE4M3FNUZ) X(ToE5M2FNUZ)
#define SINTER_EXACT_OPS(X) X(Neg) X(Abs) X(Sign) X(Floor) X(Ceil) X(Round) X(Sqrt) X(Rsqrt)
#define SINTER_SMOOTH_OPS(X) X(Reciprocal) X(Exp) X(Log) X(Log1p) X(Erf) X(Tanh) X(Atan)
#define SINTER_UNARY_OPS(X) SINTER_EXACT_OPS(X) SINTER_SMOOTH_OPS(X) SINTER_FLOAT8_OPS(X)
#define SINTER_BINARY_OPS(X) X(Add) X(Sub) X(Mul) X(Min) X(Max)

/// Loads the tail of a row, shorter than a vector, without access beyond its end.
HWY_INLINE V load_tail(D d, const float* from, std::size_t count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // masked lanes are not accessed
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(d, lanes);
#endif
}
HWY_INLINE void store_tail(D d, V value, float* to, std::size_t count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(value, hn::FirstN(d, count), d, to);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(value, d, lanes);
  std::memcpy(to, lanes, count * sizeof(float));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#endif
