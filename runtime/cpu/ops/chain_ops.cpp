// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/chain_ops.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/chain_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

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

/// How a block's four vectors lie in rows: whole in one row, or in `rows` narrow ones.
struct Place {
  std::size_t rows = 1;
  std::size_t one(std::int64_t row_stride) const {
    return rows == 4 ? static_cast<std::size_t>(row_stride) : hn::Lanes(D());
  }
  std::size_t two(std::int64_t row_stride) const {
    return rows == 1 ? 2 * hn::Lanes(D()) : static_cast<std::size_t>(row_stride) * (rows / 2);
  }
};

HWY_INLINE void bind_second(D d, std::int64_t r, const ChainLink& link, const Place& place,
                            Link& bound) {
  const auto row_of = [r](const View& view) {
    return const_cast<float*>(static_cast<const float*>(view.data) + r * view.row_stride);
  };
  const bool columns = link.other.per_column, second = link.second.per_column;
  const ChainKernels& kernels = link.kernels;
  bound.run = reinterpret_cast<Function>(columns  ? second ? kernels.columns : kernels.second_row
                                         : second ? kernels.row
                                                  : kernels.rows);
  float *yes = row_of(link.other), *no = row_of(link.second);
  bound.other = columns ? yes : nullptr;
  bound.second = second ? no : nullptr;
  bound.second_one = place.one(link.second.row_stride);
  bound.second_two = place.two(link.second.row_stride);
  bound.value = hn::Set(d, *yes);
  bound.second_value = hn::Set(d, *no);
}

/// Sets up the links for row r.
void bind_links(const ChainArgs& t, std::int64_t r, const Place& place, Link* links) {
  const D d;
  for (std::size_t k = 0; k < t.links.size(); ++k) {
    const ChainLink& link = t.links[k];
    links[k].other = links[k].second = nullptr;
    links[k].run = reinterpret_cast<Function>(link.kernels.columns);
    if (link.other.data == nullptr) continue;
    links[k].one = place.one(link.other.row_stride);
    links[k].two = place.two(link.other.row_stride);
    if (link.second.data != nullptr) {
      bind_second(d, r, link, place, links[k]);
      continue;
    }
    const float* other = static_cast<const float*>(link.other.data) + r * link.other.row_stride;
    if (link.other.per_column) {
      links[k].other = const_cast<float*>(other);
      continue;
    }
    links[k].run = reinterpret_cast<Function>(link.kernels.row);
    links[k].value = hn::Set(d, *other);
    // Division by a row's value, as in divide() of vector_ops.cpp: results must be equal.
    if (!link.kernels.divides) continue;
    const float reciprocal = 1.0f / *other;
    if (std::isnormal(reciprocal)) {
      links[k].run = binary_link<MulOp, false, true>;
      links[k].value = hn::Set(d, reciprocal);
    }
  }
  const auto size = static_cast<std::int64_t>(size_of(t.result_type));
  std::byte* result = static_cast<std::byte*>(t.result) + r * t.result_stride * size;
  constexpr std::size_t kVector = hn::MaxLanes(D()) * sizeof(float);
  const bool aligned = reinterpret_cast<std::uintptr_t>(result) % kVector == 0;
  links[t.links.size()] = {size == 1                                    ? store_bytes_link
                           : t.past_cache && aligned && place.rows == 1 ? stream_link
                                                                        : store_link,
                           result,
                           nullptr,
                           hn::Zero(d),
                           hn::Zero(d),
                           place.one(t.result_stride),
                           place.two(t.result_stride),
                           0,
                           0};
}

/// Elements from i on of a row at `from`, in the chain's representation.
template <typename Byte>
HWY_INLINE V load_bytes(D, const std::byte* from, std::size_t i) {
  const hn::Rebind<Byte, D> bytes;
  return as_held(hn::PromoteTo(DI(), hn::LoadU(bytes, reinterpret_cast<const Byte*>(from) + i)));
}
HWY_INLINE V load_start(D d, DType type, const std::byte* from, std::size_t i) {
  if (type == DType::kUInt8) return load_bytes<std::uint8_t>(d, from, i);
  if (type == DType::kInt8) return load_bytes<std::int8_t>(d, from, i);
  return hn::LoadU(d, reinterpret_cast<const float*>(from) + i);
}
HWY_INLINE V one_start(D d, DType type, const std::byte* from) {
  if (type == DType::kUInt8) return as_held(hn::Set(DI(), std::to_integer<int>(*from)));
  if (type == DType::kInt8)
    return as_held(hn::Set(DI(), static_cast<std::int8_t>(std::to_integer<int>(*from))));
  return hn::Set(d, *reinterpret_cast<const float*>(from));
}

/// The number of rows that a block of four vectors takes, if rows are narrower; else 1.
std::size_t rows_of_block(const ChainArgs& t) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D())), block = 4 * lanes;
  if (t.cols >= block || t.cols % lanes != 0 || block % t.cols != 0 || !t.start.per_column)
    return 1;
  const auto fits = [](const View& view) {
    return view.data == nullptr || view.per_column || view.row_stride == 0;
  };
  for (const ChainLink& link : t.links)
    if (!fits(link.other) || !fits(link.second)) return 1;
  if (size_of(t.result_type) == 1 && t.result_stride != t.cols) return 1;
  return static_cast<std::size_t>(block / t.cols);
}

void run_links(const ChainArgs& t) {
  constexpr std::size_t kMostBlock = 4 * hn::MaxLanes(D());
  const D d;
  const std::size_t lanes = hn::Lanes(d), block = 4 * lanes, n = static_cast<std::size_t>(t.cols);
  if (n == 0) return;
  const std::size_t start_size = size_of(t.start_type), result_size = size_of(t.result_type);
  Link links[kMaxChain + 1];
  HWY_ALIGN float padded[kMaxChain + 2][kMostBlock], seconds[kMaxChain][kMostBlock];
  std::int64_t first_row = 0;
  if (const Place place{rows_of_block(t)};
      place.rows > 1 && std::cmp_less_equal(place.rows, t.rows)) {
    const auto together = static_cast<std::int64_t>(place.rows);
    const std::size_t one = place.one(t.start.row_stride), two = place.two(t.start.row_stride);
    const auto* start = static_cast<const std::byte*>(t.start.data);
    bind_links(t, 0, place, links);
    Link& last = links[t.links.size()];
    for (;;) {
      const auto vector = [&](std::size_t at) { return load_start(d, t.start_type, start, at); };
      links[0].run(links, 0, vector(0), vector(one), vector(two), vector(one + two));
      first_row += together;
      if (first_row + together > t.rows) break;
      // The next rows: addresses alone change.
      start += together * t.start.row_stride * static_cast<std::int64_t>(start_size);
      last.other = static_cast<std::byte*>(last.other) +
                   together * t.result_stride * static_cast<std::int64_t>(result_size);
      for (std::size_t k = 0; k < t.links.size(); ++k) {
        Link& link = links[k];
        if (link.other != nullptr)
          link.other = static_cast<float*>(link.other) + together * t.links[k].other.row_stride;
        if (link.second != nullptr)
          link.second = static_cast<float*>(link.second) + together * t.links[k].second.row_stride;
      }
    }
  }
  for (std::int64_t r = first_row; r < t.rows; ++r) {
    bind_links(t, r, Place{}, links);
    const std::byte* start = static_cast<const std::byte*>(t.start.data) +
                             r * t.start.row_stride * static_cast<std::int64_t>(start_size);
    const V same = t.start.per_column ? hn::Zero(d) : one_start(d, t.start_type, start);
    const auto run = [&](const std::byte* from, std::size_t i) {
      const auto vector = [&](std::size_t v) {
        return load_start(d, t.start_type, from, i + v * lanes);
      };
      if (t.start.per_column)
        links[0].run(links, i, vector(0), vector(1), vector(2), vector(3));
      else
        links[0].run(links, i, same, same, same, same);
    };
    std::size_t i = 0;
    for (; i + block <= n; i += block) run(start, i);
    if (i == n) continue;
    // The tail of a row, computed in padded copies: operands and results must not be accessed
    // beyond the row's end.
    const auto pad = [&](float* to, const void* from, std::size_t size) {
      std::memset(to, 0, block * sizeof(float));
      std::memcpy(to, static_cast<const std::byte*>(from) + i * size, (n - i) * size);
    };
    for (std::size_t k = 0; k < t.links.size(); ++k) {
      if (links[k].other != nullptr) {
        pad(padded[k], links[k].other, sizeof(float));
        links[k].other = padded[k];
      }
      if (links[k].second == nullptr) continue;
      pad(seconds[k], links[k].second, sizeof(float));
      links[k].second = seconds[k];
    }
    float *first = padded[kMaxChain], *result = padded[kMaxChain + 1];
    if (t.start.per_column) pad(first, start, start_size);
    std::byte* target = static_cast<std::byte*>(links[t.links.size()].other) + i * result_size;
    links[t.links.size()].run = result_size == 1 ? store_bytes_link : store_link;
    links[t.links.size()].other = result;
    run(reinterpret_cast<const std::byte*>(first), 0);
    std::memcpy(target, result, (n - i) * result_size);
  }
  if (t.past_cache) hwy::FlushStream();
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  // Links leave the upper halves of registers in use, as their arguments are: code for SSE behind
  // would wait for hundreds of cycles on some processors.
  _mm256_zeroupper();
#endif
}

/// One link as a separate kernel.
template <ScalarOp kOp>
void integer_kernel(const OpArgs& t) {
  const bool left = t.args[0].per_column || !t.args[1].per_column;
  const ChainLink link{find_integer_kernels(kOp, left ? ChainSide::kLeft : ChainSide::kRight),
                       t.args[left ? 1 : 0]};
  run_links({t.rows,
             t.cols,
             t.result,
             t.result_stride,
             t.args[left ? 0 : 1],
             DType::kInt32,
             DType::kInt32,
             {&link, 1},
             false});
}
template <DType kFrom, DType kTo>
void cast_kernel(const OpArgs& t) {
  const ChainLink link{find_cast(kFrom, kTo), {}};
  run_links({t.rows, t.cols, t.result, t.result_stride, t.args[0], kFrom, kTo, {&link, 1}, false});
}

template <DType kFrom>
OpKernel find_cast_from(DType to) {
  switch (to) {
    case DType::kInt8: return cast_kernel<kFrom, DType::kInt8>;
    case DType::kUInt8: return cast_kernel<kFrom, DType::kUInt8>;
    case DType::kInt32: return cast_kernel<kFrom, DType::kInt32>;
    case DType::kFloat32: return cast_kernel<kFrom, DType::kFloat32>;
    default: return nullptr;
  }
}

OpKernel find_cast_kernel(DType from, DType to) {
  if (from == to) return nullptr;
  switch (from) {
    case DType::kInt8: return find_cast_from<DType::kInt8>(to);
    case DType::kUInt8: return find_cast_from<DType::kUInt8>(to);
    case DType::kInt32: return find_cast_from<DType::kInt32>(to);
    case DType::kFloat32:
      return to == DType::kFloat32 ? nullptr : find_cast_from<DType::kFloat32>(to);
    default: return nullptr;
  }
}

OpKernel find_integer_kernel(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd: return integer_kernel<ScalarOp::kAdd>;
    case ScalarOp::kSub: return integer_kernel<ScalarOp::kSub>;
    case ScalarOp::kMul: return integer_kernel<ScalarOp::kMul>;
    case ScalarOp::kMin: return integer_kernel<ScalarOp::kMin>;
    case ScalarOp::kMax: return integer_kernel<ScalarOp::kMax>;
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_kernels);
HWY_EXPORT(find_integer_kernels);
HWY_EXPORT(find_cast);
HWY_EXPORT(find_difference);
HWY_EXPORT(find_test);
HWY_EXPORT(find_dequantize);
HWY_EXPORT(find_quantize);
HWY_EXPORT(find_choice);
HWY_EXPORT(find_cast_kernel);
HWY_EXPORT(find_integer_kernel);
HWY_EXPORT(run_links);

ChainKernels find_chain_kernels(ScalarOp op, DType type, ChainSide side, bool small) {
  if (type == DType::kInt32) return HWY_DYNAMIC_DISPATCH(find_integer_kernels)(op, side);
  return type == DType::kFloat32 ? HWY_DYNAMIC_DISPATCH(find_kernels)(op, side, small)
                                 : ChainKernels{};
}

ChainKernels find_chain_test(ScalarOp op, ChainSide side) {
  return HWY_DYNAMIC_DISPATCH(find_test)(op, side);
}
ChainKernels find_chain_dequantize() { return HWY_DYNAMIC_DISPATCH(find_dequantize)(); }
ChainKernels find_chain_quantize(DType to) { return HWY_DYNAMIC_DISPATCH(find_quantize)(to); }
ChainKernels find_chain_choice() { return HWY_DYNAMIC_DISPATCH(find_choice)(); }

ChainKernels find_chain_difference() { return HWY_DYNAMIC_DISPATCH(find_difference)(); }

ChainKernels find_chain_cast(DType from, DType to) {
  return HWY_DYNAMIC_DISPATCH(find_cast)(from, to);
}

OpKernel find_vector_integer_kernel(ScalarOp op, DType operand, DType result) {
  if (op == ScalarOp::kCast) return HWY_DYNAMIC_DISPATCH(find_cast_kernel)(operand, result);
  return operand == DType::kInt32 && result == DType::kInt32
             ? HWY_DYNAMIC_DISPATCH(find_integer_kernel)(op)
             : nullptr;
}

void run_chain(const ChainArgs& args) { HWY_DYNAMIC_DISPATCH(run_links)(args); }

}  // namespace sinter::runtime::cpu
#endif
