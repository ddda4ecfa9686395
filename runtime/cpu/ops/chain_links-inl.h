// SPDX-License-Identifier: Apache-2.0
// The links of chains for one Highway target, and which link computes an operator.
#if defined(SINTER_CHAIN_LINKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SINTER_CHAIN_LINKS_INL_H_
#undef SINTER_CHAIN_LINKS_INL_H_
#else
#define SINTER_CHAIN_LINKS_INL_H_
#endif

#include <cmath>
#include <cstring>
#include <utility>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "runtime/cpu/ops/chain_kernels.h"
#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Link;
/// A link ends with a tail call of the next one, passing its results for elements from i on. The
/// compiler turns these calls into jumps, and vectors stay in argument registers.
using Function = void (*)(const Link*, std::size_t i, V a, V b, V c, V d);

struct Link {
  Function run;
  void* other;   // start of the operand's row
  void* second;  // the same of a second operand
  V value;       // the row's value, if it has one for all columns
  V second_value;
  // Where the four vectors begin: at 0, one, two, one + two. In one row, these are one and two
  // vectors; narrow rows are taken several at once.
  std::size_t one, two;  // of `other`
  std::size_t second_one, second_two;
  V vector(D d, std::size_t i, std::size_t number) const {
    const float* at = static_cast<const float*>(other) + i;
    return hn::LoadU(d, at + (number & 1) * one + (number >> 1) * two);
  }
  V second_vector(D d, std::size_t i, std::size_t number) const {
    const float* at = static_cast<const float*>(second) + i;
    return hn::LoadU(d, at + (number & 1) * second_one + (number >> 1) * second_two);
  }
};

// V also holds int32 values, as bits.
using DI = hn::RebindToSigned<D>;
using VI = hn::VFromD<DI>;
HWY_INLINE VI as_ints(V v) { return hn::BitCast(DI(), v); }
HWY_INLINE V as_held(VI v) { return hn::BitCast(D(), v); }

// Integers wrap.
#define SINTER_INTEGER(name, expression)       \
  struct name {                                \
    static HWY_INLINE V apply(D, V x, V y) {   \
      const VI a = as_ints(x), b = as_ints(y); \
      return as_held(expression);              \
    }                                          \
  };
SINTER_INTEGER(IntAddOp, hn::Add(a, b))
SINTER_INTEGER(IntSubOp, hn::Sub(a, b))
SINTER_INTEGER(IntMulOp, hn::Mul(a, b))
SINTER_INTEGER(IntMinOp, hn::Min(a, b))
SINTER_INTEGER(IntMaxOp, hn::Max(a, b))
#undef SINTER_INTEGER

/// Truncates what int32 holds. Highway's conversion also saturates, which takes as long again.
HWY_INLINE VI truncated(V v) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return VI{_mm512_cvttps_epi32(v.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return VI{_mm256_cvttps_epi32(v.raw)};
#else
  return hn::ConvertTo(DI(), v);
#endif
}

struct SameOp {
  static HWY_INLINE V apply(D, V a) { return a; }
};
struct FromIntOp {
  static HWY_INLINE V apply(D d, V a) { return hn::ConvertTo(d, as_ints(a)); }
};
/// Truncates and saturates to kLow .. kHigh, which must be exact in float32; NaN becomes 0.
template <int kLow, int kHigh>
struct ToIntOp {
  static HWY_INLINE V apply(D d, V a) {
    const V low = hn::Set(d, static_cast<float>(kLow)),
            high = hn::Set(d, static_cast<float>(kHigh));
    // x86's maximum with 0 is 0 for NaN.
    constexpr bool kIsZero = HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && kLow == 0;
    const V number = kIsZero ? a : hn::IfThenElseZero(hn::Eq(a, a), a);
    return as_held(truncated(hn::Min(hn::Max(number, low), high)));
  }
};
/// Truncates and saturates to int32, whose maximum is not exact in float32; NaN becomes 0.
struct ToAnyIntOp {
  static HWY_INLINE V apply(D d, V a) {
    const V number = hn::IfThenElseZero(hn::Eq(a, a), a);
    const auto above = hn::RebindMask(DI(), hn::Ge(number, hn::Set(d, 0x1p31F)));
    const VI inside =
        truncated(hn::Min(hn::Max(number, hn::Set(d, -0x1p31F)), hn::Set(d, 0x1.fffffep30F)));
    return as_held(hn::IfThenElse(above, hn::Set(DI(), INT32_MAX), inside));
  }
};
/// The low byte, sign- or zero-extended.
template <bool kSigned>
struct ToByteOp {
  static HWY_INLINE V apply(D, V a) {
    const VI high = hn::ShiftLeft<24>(as_ints(a));
    if constexpr (kSigned) return as_held(hn::ShiftRight<24>(high));
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(D(), hn::ShiftRight<24>(hn::BitCast(du, high)));
  }
};

/// An integer minus another, as float32: what dequantizing begins with.
struct IntSubToFloatOp {
  static HWY_INLINE V apply(D d, V x, V y) {
    return hn::ConvertTo(d, hn::Sub(as_ints(x), as_ints(y)));
  }
};

// Flags are all bits of an element.
#define SINTER_TEST(name, test)                                                     \
  struct name {                                                                     \
    static HWY_INLINE V apply(D d, V a, V b) { return hn::VecFromMask(d, (test)); } \
  };
SINTER_TEST(EqualFlags, hn::Eq(a, b))
SINTER_TEST(NotEqualFlags, hn::Not(hn::Eq(a, b)))
SINTER_TEST(LessFlags, hn::Lt(a, b))
SINTER_TEST(LessEqualFlags, hn::Le(a, b))
#undef SINTER_TEST

/// What quantizing ends with: rounds, adds, and saturates.
template <int kLow, int kHigh>
struct RoundAddToIntOp {
  static HWY_INLINE V apply(D d, V x, V y) {
    return ToIntOp<kLow, kHigh>::apply(d, hn::Add(hn::Round(x), y));
  }
};

template <class Op>
void unary_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  return link[1].run(link + 1, i, Op::apply(d, a), Op::apply(d, b), Op::apply(d, c),
                     Op::apply(d, e));
}

template <class Op>
void both_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  return link[1].run(link + 1, i, Op::apply(d, a, a), Op::apply(d, b, b), Op::apply(d, c, c),
                     Op::apply(d, e, e));
}

/// kLeft: the chain's value is the left operand.
template <class Op, bool kColumns, bool kLeft>
void binary_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  const auto apply = [&](std::size_t vector, V value) {
    const V other = kColumns ? link->vector(d, i, vector) : link->value;
    return kLeft ? Op::apply(d, value, other) : Op::apply(d, other, value);
  };
  return link[1].run(link + 1, i, apply(0, a), apply(1, b), apply(2, c), apply(3, e));
}

/// Takes the first operand where a test's flag is set, else the second.
template <bool kColumns, bool kSecondColumns>
void choice_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  const auto choose = [&](std::size_t vector, V flags) {
    return hn::IfThenElse(hn::MaskFromVec(flags),
                          kColumns ? link->vector(d, i, vector) : link->value,
                          kSecondColumns ? link->second_vector(d, i, vector) : link->second_value);
  };
  return link[1].run(link + 1, i, choose(0, a), choose(1, b), choose(2, c), choose(3, e));
}

/// An integer less the first row value, times the second.
void dequantize_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  const auto one = [&](V x) {
    return hn::Mul(IntSubToFloatOp::apply(d, x, link->value), link->second_value);
  };
  return link[1].run(link + 1, i, one(a), one(b), one(c), one(e));
}

/// Ends a chain: stores its results at `other`.
void store_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  float* at = static_cast<float*>(link->other) + i;
  hn::StoreU(a, d, at);
  hn::StoreU(b, d, at + link->one);
  at += link->two;
  hn::StoreU(c, d, at);
  hn::StoreU(e, d, at + link->one);
}

/// The same for 8-bit integers, signed or unsigned.
void store_bytes_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  std::uint8_t* at = static_cast<std::uint8_t*>(link->other) + i;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  // Saturating packs of what is cut to a byte before, then 32-bit lanes in order.
  const auto byte = [](V value) {
    return _mm512_and_si512(_mm512_castps_si512(value.raw), _mm512_set1_epi32(0xFF));
  };
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i all = _mm512_packus_epi16(_mm512_packs_epi32(byte(a), byte(b)),
                                          _mm512_packs_epi32(byte(c), byte(e)));
  _mm512_storeu_si512(at, _mm512_permutexvar_epi32(order, all));
#else
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint8_t, D> bytes;
  const std::size_t lanes = hn::Lanes(du);
  const auto store = [&](std::size_t vector, V value) {
    hn::StoreU(hn::TruncateTo(bytes, hn::BitCast(du, value)), bytes, at + vector * lanes);
  };
  store(0, a);
  store(1, b);
  store(2, c);
  store(3, e);
#endif
}

/// The same with non-temporal stores, for large results: the cache does not read lines before they
/// are written. Results must be vector-aligned.
void stream_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  float* at = static_cast<float*>(link->other) + i;
  hn::Stream(a, d, at);
  hn::Stream(b, d, at + hn::Lanes(d));
  hn::Stream(c, d, at + 2 * hn::Lanes(d));
  hn::Stream(e, d, at + 3 * hn::Lanes(d));
}

ChainFunction opaque(Function function) { return reinterpret_cast<ChainFunction>(function); }

template <class Op>
ChainKernels unary() {
  const ChainFunction function = opaque(unary_link<Op>);
  return {function, function};
}

template <class Op>
ChainKernels binary(ChainSide side) {
  if (side == ChainSide::kBoth) return {opaque(both_link<Op>), opaque(both_link<Op>)};
  if (side == ChainSide::kLeft)
    return {opaque(binary_link<Op, true, true>), opaque(binary_link<Op, false, true>)};
  return {opaque(binary_link<Op, true, false>), opaque(binary_link<Op, false, false>)};
}

ChainKernels find_test(ScalarOp op, ChainSide side) {
  const auto test = []<class Op>(ChainSide of) {
    ChainKernels kernels = binary<Op>(of);
    kernels.tests = true;
    return kernels;
  };
  const ChainSide swapped = side == ChainSide::kLeft    ? ChainSide::kRight
                            : side == ChainSide::kRight ? ChainSide::kLeft
                                                        : side;
  switch (op) {
    case ScalarOp::kEqual: return test.template operator()<EqualFlags>(side);
    case ScalarOp::kNotEqual: return test.template operator()<NotEqualFlags>(side);
    case ScalarOp::kLess: return test.template operator()<LessFlags>(side);
    case ScalarOp::kLessEqual: return test.template operator()<LessEqualFlags>(side);
    case ScalarOp::kGreater: return test.template operator()<LessFlags>(swapped);
    case ScalarOp::kGreaterEqual: return test.template operator()<LessEqualFlags>(swapped);
    default: return {};
  }
}

ChainKernels find_choice() {
  return {opaque(choice_link<true, true>), opaque(choice_link<false, true>),
          opaque(choice_link<true, false>), opaque(choice_link<false, false>)};
}

ChainKernels find_dequantize() {
  ChainKernels kernels;
  kernels.rows = kernels.columns = opaque(dequantize_link);
  return kernels;
}
ChainKernels find_quantize(DType to) {
  return to == DType::kInt8 ? binary<RoundAddToIntOp<-128, 127>>(ChainSide::kLeft)
                            : binary<RoundAddToIntOp<0, 255>>(ChainSide::kLeft);
}

ChainKernels find_difference() { return binary<IntSubToFloatOp>(ChainSide::kLeft); }

ChainKernels find_integer_kernels(ScalarOp op, ChainSide side) {
  switch (op) {
    case ScalarOp::kAdd: return binary<IntAddOp>(side);
    case ScalarOp::kSub: return binary<IntSubOp>(side);
    case ScalarOp::kMul: return binary<IntMulOp>(side);
    case ScalarOp::kMin: return binary<IntMinOp>(side);
    case ScalarOp::kMax: return binary<IntMaxOp>(side);
    default: return {};
  }
}

ChainKernels find_cast(DType from, DType to) {
  const auto is_held = [](DType type) {
    return type == DType::kInt32 || type == DType::kInt8 || type == DType::kUInt8;
  };
  if (from == DType::kFloat32) {
    if (to == DType::kInt8) return unary<ToIntOp<-128, 127>>();
    if (to == DType::kUInt8) return unary<ToIntOp<0, 255>>();
    return to == DType::kInt32 ? unary<ToAnyIntOp>() : ChainKernels{};
  }
  if (!is_held(from)) return {};
  if (to == DType::kFloat32) return unary<FromIntOp>();
  if (to == DType::kInt32) return unary<SameOp>();
  if (to == DType::kInt8) return unary<ToByteOp<true>>();
  return to == DType::kUInt8 ? unary<ToByteOp<false>>() : ChainKernels{};
}

ChainKernels find_kernels(ScalarOp op, ChainSide side, bool small) {
  switch (op) {
#define SINTER_CASE(name) \
  case ScalarOp::k##name: return unary<name##Op>();
    SINTER_UNARY_OPS(SINTER_CASE)
#undef SINTER_CASE
#define SINTER_CASE(name) \
  case ScalarOp::k##name: return binary<name##Op>(side);
    SINTER_BINARY_OPS(SINTER_CASE)
#undef SINTER_CASE
    case ScalarOp::kDiv: {
      ChainKernels kernels = binary<DivOp>(side);
      kernels.divides = side == ChainSide::kLeft;
      return kernels;
    }
    case ScalarOp::kQuotient: return binary<DivOp>(side);
    case ScalarOp::kSin: return small ? unary<SmallSinOp>() : unary<SinOp>();
    case ScalarOp::kCos: return small ? unary<SmallCosOp>() : unary<CosOp>();
    default: return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
