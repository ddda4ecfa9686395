// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/cpu/ops/float8_ops.h"
#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/vectors/vector_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

#include "runtime/cpu/ops/vectors/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Op>
void unary(const OpArgs& t) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(t.cols);
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const float* a = static_cast<const float*>(t.args[0].data) + r * t.args[0].row_stride;
    float* out = static_cast<float*>(t.result) + r * t.result_stride;
    if (!t.args[0].per_column) {
      const float value = hn::GetLane(Op::apply(d, hn::Set(d, *a)));
      std::fill(out, out + n, value);
      continue;
    }
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(Op::apply(d, hn::LoadU(d, a + i)), d, out + i);
    if (i < n) store_tail(d, Op::apply(d, load_tail(d, a + i, n - i)), out + i, n - i);
  }
}

template <class Op, bool kColumnsA, bool kColumnsB>
HWY_INLINE void binary_row(const float* a, const float* b, float* out, std::size_t n) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const V sa = hn::Set(d, *a);
  const V sb = hn::Set(d, *b);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V va = kColumnsA ? hn::LoadU(d, a + i) : sa;
    const V vb = kColumnsB ? hn::LoadU(d, b + i) : sb;
    hn::StoreU(Op::apply(d, va, vb), d, out + i);
  }
  if (i == n) return;
  const V va = kColumnsA ? load_tail(d, a + i, n - i) : sa;
  const V vb = kColumnsB ? load_tail(d, b + i, n - i) : sb;
  store_tail(d, Op::apply(d, va, vb), out + i, n - i);
}

template <class Op, bool kColumnsA, bool kColumnsB>
void binary_rows(const OpArgs& t) {
  const auto n = static_cast<std::size_t>(t.cols);
  const float *a = static_cast<const float*>(t.args[0].data),
              *b = static_cast<const float*>(t.args[1].data);
  auto* out = static_cast<float*>(t.result);
  for (std::int64_t r = 0; r < t.rows; ++r) {
    binary_row<Op, kColumnsA, kColumnsB>(a, b, out, n);
    a += t.args[0].row_stride;
    b += t.args[1].row_stride;
    out += t.result_stride;
  }
}

/// Rows that are parts of a vector and lie one after the other, with one number for each: computes
/// as many as a vector has, as often as possible. `kNumbers`: which operand has the numbers.
/// Returns the number of rows done.
template <class Op, int kNumbers>
std::int64_t narrow_rows([[maybe_unused]] const OpArgs& t) {
#if !HWY_ARCH_X86 || HWY_TARGET > HWY_AVX3
  return 0;  // their vectors have few rows, and each copy of the code takes room
#else
  const D d;
  const View &columns = t.args[1 - kNumbers], &numbers = t.args[kNumbers];
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (t.cols >= lanes || lanes % t.cols != 0 || t.result_stride != t.cols ||
      columns.row_stride != t.cols || numbers.row_stride != 1)
    return 0;
  HWY_ALIGN std::int32_t rows_of[hn::MaxLanes(D())];
  for (std::int64_t i = 0; i < lanes; ++i) rows_of[i] = static_cast<std::int32_t>(i / t.cols);
  const auto row_of = hn::SetTableIndices(d, rows_of);
  const auto *from = static_cast<const float*>(columns.data),
             *of = static_cast<const float*>(numbers.data);
  auto* out = static_cast<float*>(t.result);
  const std::int64_t together = lanes / t.cols;
  std::int64_t r = 0;
  for (; r + together <= t.rows; r += together) {
    const V few = r + lanes <= t.rows ? hn::LoadU(d, of + r)
                                      : load_tail(d, of + r, static_cast<std::size_t>(t.rows - r));
    const V number = hn::TableLookupLanes(few, row_of), value = hn::LoadU(d, from + r * t.cols);
    const V result = kNumbers == 1 ? Op::apply(d, value, number) : Op::apply(d, number, value);
    hn::StoreU(result, d, out + r * t.cols);
  }
  return r;
#endif
}

OpArgs without_rows(OpArgs t, std::int64_t rows) {
  t.rows -= rows;
  t.result = static_cast<float*>(t.result) + rows * t.result_stride;
  for (View& arg : t.args)
    if (arg.data != nullptr) arg.data = static_cast<const float*>(arg.data) + rows * arg.row_stride;
  return t;
}

template <class Op>
void binary_any(const OpArgs& t) {
  if (t.args[0].per_column)
    t.args[1].per_column ? binary_rows<Op, true, true>(t) : binary_rows<Op, true, false>(t);
  else
    t.args[1].per_column ? binary_rows<Op, false, true>(t) : binary_rows<Op, false, false>(t);
}

template <class Op>
void binary(const OpArgs& t) {
  if (t.cols == 0) return;
  std::int64_t done = 0;
  if (t.rows > 1 && t.args[0].per_column != t.args[1].per_column)
    done = t.args[1].per_column ? narrow_rows<Op, 0>(t) : narrow_rows<Op, 1>(t);
  if (done > 0)
    binary_any<Op>(without_rows(t, done));
  else
    binary_any<Op>(t);
}

/// Division of a row by one number multiplies by its reciprocal, at a quarter of the cost. Error:
/// half an ulp more. Divides if the reciprocal is not a normal number.
void divide(const OpArgs& t) {
  if (t.cols == 0) return;
  if (t.args[1].per_column || !t.args[0].per_column) return binary<DivOp>(t);
  const auto n = static_cast<std::size_t>(t.cols);
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const float* a = static_cast<const float*>(t.args[0].data) + r * t.args[0].row_stride;
    const float* b = static_cast<const float*>(t.args[1].data) + r * t.args[1].row_stride;
    float* out = static_cast<float*>(t.result) + r * t.result_stride;
    const float reciprocal = 1.0f / *b;
    if (std::isnormal(reciprocal))
      binary_row<MulOp, true, false>(a, &reciprocal, out, n);
    else
      binary_row<DivOp, true, false>(a, b, out, n);
  }
}

template <bool kColumnsA, bool kColumnsB>
HWY_INLINE void select_row(const std::uint8_t* c, const float* a, const float* b, float* out,
                           std::int64_t n) {
  const D d;
  const hn::Rebind<std::uint8_t, D> d8;
  const hn::RebindToUnsigned<D> du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V sa = hn::Set(d, *a), sb = hn::Set(d, *b);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto chosen = hn::Ne(hn::PromoteTo(du, hn::LoadU(d8, c + i)), hn::Zero(du));
    const V va = kColumnsA ? hn::LoadU(d, a + i) : sa;
    const V vb = kColumnsB ? hn::LoadU(d, b + i) : sb;
    hn::StoreU(hn::IfThenElse(hn::RebindMask(d, chosen), va, vb), d, out + i);
  }
  for (; i < n; ++i) out[i] = c[i] ? (kColumnsA ? a[i] : *a) : (kColumnsB ? b[i] : *b);
}

/// narrow_rows() for choices by one flag for each row, among rows and numbers that are the same
/// for all.
std::int64_t narrow_choices([[maybe_unused]] const OpArgs& t) {
#if !HWY_ARCH_X86 || HWY_TARGET > HWY_AVX3
  return 0;
#else
  const D d;
  const hn::Rebind<std::uint8_t, D> d8;
  const hn::RebindToUnsigned<D> du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const View &flags = t.args[0], &yes = t.args[1], &no = t.args[2];
  const auto fits = [&](const View& view) {
    return view.row_stride == (view.per_column ? t.cols : 0);
  };
  if (t.cols >= lanes || lanes % t.cols != 0 || t.result_stride != t.cols || flags.per_column ||
      flags.row_stride != 1 || !fits(yes) || !fits(no))
    return 0;
  HWY_ALIGN std::int32_t rows_of[hn::MaxLanes(D())];
  for (std::int64_t i = 0; i < lanes; ++i) rows_of[i] = static_cast<std::int32_t>(i / t.cols);
  const auto row_of = hn::SetTableIndices(du, rows_of);
  const auto *a = static_cast<const float*>(yes.data), *b = static_cast<const float*>(no.data);
  const V one_a = hn::Set(d, *a), one_b = hn::Set(d, *b);
  const std::int64_t together = lanes / t.cols;
  std::int64_t r = 0;
  for (; r + lanes <= t.rows; r += together) {
    const auto few =
        hn::PromoteTo(du, hn::LoadU(d8, static_cast<const std::uint8_t*>(flags.data) + r));
    const auto chosen = hn::Ne(hn::TableLookupLanes(few, row_of), hn::Zero(du));
    const V va = yes.per_column ? hn::LoadU(d, a + r * t.cols) : one_a,
            vb = no.per_column ? hn::LoadU(d, b + r * t.cols) : one_b;
    hn::StoreU(hn::IfThenElse(hn::RebindMask(d, chosen), va, vb), d,
               static_cast<float*>(t.result) + r * t.cols);
  }
  return r;
#endif
}

void select_rows(const OpArgs& t) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const auto* c = static_cast<const std::uint8_t*>(t.args[0].data) + r * t.args[0].row_stride;
    const float* a = static_cast<const float*>(t.args[1].data) + r * t.args[1].row_stride;
    const float* b = static_cast<const float*>(t.args[2].data) + r * t.args[2].row_stride;
    float* out = static_cast<float*>(t.result) + r * t.result_stride;
    const bool columns_a = t.args[1].per_column, columns_b = t.args[2].per_column;
    if (!t.args[0].per_column) {
      const float* from = *c ? a : b;
      const bool in_columns = *c ? columns_a : columns_b;
      const auto n = static_cast<std::size_t>(t.cols);
      if (n < hn::Lanes(D()))
        store_tail(D(), in_columns ? load_tail(D(), from, n) : hn::Set(D(), *from), out, n);
      else if (in_columns)
        std::memmove(out, from, static_cast<std::size_t>(t.cols) * sizeof(float));
      else
        std::fill(out, out + t.cols, *from);
    } else if (columns_a) {
      columns_b ? select_row<true, true>(c, a, b, out, t.cols)
                : select_row<true, false>(c, a, b, out, t.cols);
    } else {
      columns_b ? select_row<false, true>(c, a, b, out, t.cols)
                : select_row<false, false>(c, a, b, out, t.cols);
    }
  }
}

void select(const OpArgs& t) {
  if (t.cols == 0) return;
  const std::int64_t done = t.rows > 1 ? narrow_choices(t) : 0;
  if (done == 0) return select_rows(t);
  OpArgs rest = without_rows(t, done);
  rest.args[0].data =
      static_cast<const std::uint8_t*>(t.args[0].data) + done * t.args[0].row_stride;
  select_rows(rest);
}

OpKernel find_op(ScalarOp op) {
  switch (op) {
#define SINTER_CASE(name) \
  case ScalarOp::k##name: return unary<name##Op>;
    SINTER_UNARY_OPS(SINTER_CASE)
#undef SINTER_CASE
#define SINTER_CASE(name) \
  case ScalarOp::k##name: return binary<name##Op>;
    SINTER_BINARY_OPS(SINTER_CASE)
#undef SINTER_CASE
    case ScalarOp::kDiv: return divide;
    case ScalarOp::kQuotient: return binary<DivOp>;
    case ScalarOp::kSin: return unary<SinOp>;
    case ScalarOp::kCos: return unary<CosOp>;
    case ScalarOp::kSelect: return select;
    default: return nullptr;
  }
}

OpKernel find_small(ScalarOp op) {
  if (op == ScalarOp::kSin) return unary<SmallSinOp>;
  if (op == ScalarOp::kCos) return unary<SmallCosOp>;
  return nullptr;
}

// ---- reductions

// NaN propagates, as in min and max. Accumulators are double.
using Wide = hn::ScalableTag<double>;
using WideV = hn::Vec<Wide>;

struct SumCombine {
  static constexpr float kIdentity = 0;
  static HWY_INLINE WideV merge(WideV a, WideV b) { return hn::Add(a, b); }
  static HWY_INLINE V apply(D d, V a, V b) { return AddOp::apply(d, a, b); }
  static HWY_INLINE double merge(double a, double b) { return a + b; }
};
struct ProdCombine {
  static constexpr float kIdentity = 1;
  static HWY_INLINE WideV merge(WideV a, WideV b) { return hn::Mul(a, b); }
  static HWY_INLINE V apply(D d, V a, V b) { return MulOp::apply(d, a, b); }
  static HWY_INLINE double merge(double a, double b) { return a * b; }
};
struct MaxCombine {
  static constexpr float kIdentity = -std::numeric_limits<float>::infinity();
  static HWY_INLINE WideV merge(WideV a, WideV b) {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Gt(a, b)), a, b);
  }
  static HWY_INLINE V apply(D d, V a, V b) { return MaxOp::apply(d, a, b); }
  static HWY_INLINE double merge(double a, double b) { return a != a || a > b ? a : b; }
};
struct MinCombine {
  static constexpr float kIdentity = std::numeric_limits<float>::infinity();
  static HWY_INLINE WideV merge(WideV a, WideV b) {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Lt(a, b)), a, b);
  }
  static HWY_INLINE V apply(D d, V a, V b) { return MinOp::apply(d, a, b); }
  static HWY_INLINE double merge(double a, double b) { return a != a || a < b ? a : b; }
};

template <class C>
void reduce_init(void* accumulators, std::int64_t count) {
  auto* acc = static_cast<double*>(accumulators);
  std::fill(acc, acc + count, static_cast<double>(C::kIdentity));
}

void reduce_finish(const void* accumulators, void* result, std::int64_t count) {
  const auto* acc = static_cast<const double*>(accumulators);
  auto* out = static_cast<float*>(result);
  const Wide wide;
  const hn::Rebind<float, Wide> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::DemoteTo(narrow, hn::LoadU(wide, acc + i)), narrow, out + i);
  for (; i < count; ++i) out[i] = static_cast<float>(acc[i]);
}

/// Combines the first `count` lanes with the accumulators.
template <class C>
HWY_INLINE void merge_lanes(D d, V value, std::size_t count, double* acc) {
  HWY_ALIGN float partial[hn::MaxLanes(D())];
  hn::Store(value, d, partial);
  const Wide wide;
  const hn::Rebind<float, Wide> narrow;
  const std::size_t lanes = hn::Lanes(wide);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(
        C::merge(hn::LoadU(wide, acc + i), hn::PromoteTo(wide, hn::LoadU(narrow, partial + i))),
        wide, acc + i);
  for (; i < count; ++i) acc[i] = C::merge(acc[i], static_cast<double>(partial[i]));
}

/// All lanes combined. A chain of single ones would take longer than a row's vectors.
template <class C>
HWY_INLINE double reduce_lanes(D d, V value) {
  if constexpr (std::is_same_v<C, MaxCombine> || std::is_same_v<C, MinCombine>) {
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(value))))
      return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(hn::GetLane(
        std::is_same_v<C, MaxCombine> ? hn::MaxOfLanes(d, value) : hn::MinOfLanes(d, value)));
  }
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(value, d, lanes);
  const Wide wide;
  const hn::Rebind<float, Wide> narrow;
  const std::size_t step = hn::Lanes(wide);
  WideV sum = hn::PromoteTo(wide, hn::Load(narrow, lanes));
  for (std::size_t i = step; i < hn::Lanes(d); i += step)
    sum = C::merge(sum, hn::PromoteTo(wide, hn::Load(narrow, lanes + i)));
  if constexpr (std::is_same_v<C, SumCombine>) return hn::GetLane(hn::SumOfLanes(wide, sum));
  HWY_ALIGN double parts[hn::MaxLanes(Wide())];
  hn::Store(sum, wide, parts);
  for (std::size_t width = step / 2; width > 0; width /= 2)
    for (std::size_t i = 0; i < width; ++i) parts[i] = C::merge(parts[i], parts[i + width]);
  return parts[0];
}

template <class C>
void reduce_along_rows(const ReduceArgs& t) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(t.cols);
  auto* acc = static_cast<double*>(t.accumulators);
  const V identity = hn::Set(d, C::kIdentity);
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const float* a = static_cast<const float*>(t.value.data) + r * t.value.row_stride;
    if (!t.value.per_column) {
      for (std::size_t i = 0; i < n; ++i) acc[r] = C::merge(acc[r], static_cast<double>(*a));
      continue;
    }
    // Four chains hide the latency of additions.
    V s0 = identity, s1 = identity, s2 = identity, s3 = identity;
    std::size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      s0 = C::apply(d, s0, hn::LoadU(d, a + i));
      s1 = C::apply(d, s1, hn::LoadU(d, a + i + lanes));
      s2 = C::apply(d, s2, hn::LoadU(d, a + i + 2 * lanes));
      s3 = C::apply(d, s3, hn::LoadU(d, a + i + 3 * lanes));
    }
    for (; i + lanes <= n; i += lanes) s0 = C::apply(d, s0, hn::LoadU(d, a + i));
    const V sum = C::apply(d, C::apply(d, s0, s1), C::apply(d, s2, s3));
    double result = C::merge(acc[r], reduce_lanes<C>(d, sum));
    for (; i < n; ++i) result = C::merge(result, static_cast<double>(a[i]));
    acc[r] = result;
  }
}

template <class C>
void reduce_along_columns(const ReduceArgs& t) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(t.cols);
  auto* acc = static_cast<double*>(t.accumulators);
  const float* base = static_cast<const float*>(t.value.data);
  for (std::size_t c = 0; c < n; c += lanes) {
    const std::size_t count = std::min(lanes, n - c);
    const auto value_of = [&](std::int64_t r) {
      const float* a = base + r * t.value.row_stride;
      return !t.value.per_column ? hn::Set(d, *a)
             : count == lanes    ? hn::LoadU(d, a + c)
                                 : load_tail(d, a + c, count);
    };
    // Four chains, as along rows.
    const V identity = hn::Set(d, C::kIdentity);
    V s0 = identity, s1 = identity, s2 = identity, s3 = identity;
    std::int64_t r = 0;
    for (; r + 4 <= t.rows; r += 4) {
      s0 = C::apply(d, s0, value_of(r));
      s1 = C::apply(d, s1, value_of(r + 1));
      s2 = C::apply(d, s2, value_of(r + 2));
      s3 = C::apply(d, s3, value_of(r + 3));
    }
    for (; r < t.rows; ++r) s0 = C::apply(d, s0, value_of(r));
    merge_lanes<C>(d, C::apply(d, C::apply(d, s0, s1), C::apply(d, s2, s3)), count, acc + c);
  }
}

template <class C>
void reduce_rows_anywhere(std::span<const void* const> rows, const void* fill, std::int64_t begin,
                          std::int64_t cols, void* accumulators) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(cols);
  auto* acc = static_cast<double*>(accumulators) + begin;
  const auto at = [](const void* row) { return static_cast<const float*>(row); };
  const V first = hn::Set(d, fill == nullptr ? C::kIdentity : *at(fill));
  for (std::size_t c = 0; c < n; c += lanes) {
    const std::size_t count = std::min(lanes, n - c);
    V result = first;
    if (count == lanes)
      for (const void* row : rows) result = C::apply(d, result, hn::LoadU(d, at(row) + c));
    else
      for (const void* row : rows) result = C::apply(d, result, load_tail(d, at(row) + c, count));
    merge_lanes<C>(d, result, count, acc + c);
  }
}

template <class C>
ReduceKernels reduce_kernels() {
  return {reduce_init<C>, reduce_along_rows<C>, reduce_along_columns<C>, reduce_finish,
          reduce_rows_anywhere<C>};
}

ReduceKernels find_reduce(Combine combine) {
  switch (combine) {
    case Combine::kSum: return reduce_kernels<SumCombine>();
    case Combine::kProd: return reduce_kernels<ProdCombine>();
    case Combine::kMax: return reduce_kernels<MaxCombine>();
    case Combine::kMin: return reduce_kernels<MinCombine>();
  }
  return {};
}

// ---- conversions

void widen_f16(const hwy::float16_t* source, float* target, std::size_t count) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> dh;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, source + i)), d, target + i);
  if (i == count) return;
  HWY_ALIGN hwy::float16_t in[hn::MaxLanes(D())] = {};
  std::memcpy(in, source + i, (count - i) * sizeof(hwy::float16_t));
  store_tail(d, hn::PromoteTo(d, hn::Load(dh, in)), target + i, count - i);
}

void narrow_f16(const float* source, hwy::float16_t* target, std::size_t count) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> dh;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, source + i)), dh, target + i);
  if (i == count) return;
  HWY_ALIGN hwy::float16_t out[hn::MaxLanes(D())];
  hn::Store(hn::DemoteTo(dh, load_tail(d, source + i, count - i)), dh, out);
  std::memcpy(target + i, out, (count - i) * sizeof(hwy::float16_t));
}

void widen_bf16(const std::uint16_t* source, float* target, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(source[i]) << 16;
    std::memcpy(target + i, &bits, sizeof bits);
  }
}

void narrow_bf16(const float* source, std::uint16_t* target, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, source + i, sizeof bits);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    target[i] = static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40 : rounded);
  }
}

void widen_any(DType from, const void* source, float* target, std::size_t count) {
  if (from == DType::kFloat16)
    return widen_f16(static_cast<const hwy::float16_t*>(source), target, count);
  if (from == DType::kBFloat16)
    return widen_bf16(static_cast<const std::uint16_t*>(source), target, count);
  with_float8(from, [&]<DType kType>() {
    const auto* codes = static_cast<const std::uint8_t*>(source);
    for (std::size_t i = 0; i < count; ++i) target[i] = float8_to_float<kType>(codes[i]);
  });
}

void narrow_any(DType to, const float* source, void* target, std::size_t count) {
  if (to == DType::kFloat16) return narrow_f16(source, static_cast<hwy::float16_t*>(target), count);
  if (to == DType::kBFloat16)
    return narrow_bf16(source, static_cast<std::uint16_t*>(target), count);
  with_float8(to, [&]<DType kType>() {
    auto* codes = static_cast<std::uint8_t*>(target);
    for (std::size_t i = 0; i < count; ++i) codes[i] = float_to_float8<kType>(source[i]);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_op);
HWY_EXPORT(find_small);
HWY_EXPORT(find_reduce);
HWY_EXPORT(widen_any);
HWY_EXPORT(narrow_any);

OpKernel find_vector_kernel(ScalarOp op, DType operand, DType result) {
  return operand == DType::kFloat32 && result == DType::kFloat32 ? HWY_DYNAMIC_DISPATCH(find_op)(op)
                                                                 : nullptr;
}

OpKernel find_small_kernel(ScalarOp op, DType operand) {
  return operand == DType::kFloat32 ? HWY_DYNAMIC_DISPATCH(find_small)(op) : nullptr;
}

ReduceKernels find_vector_reduce(Combine combine) {
  return HWY_DYNAMIC_DISPATCH(find_reduce)(combine);
}

void widen(DType from, const void* source, float* target, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(widen_any)
  (from, source, target, static_cast<std::size_t>(count));
}

void narrow(DType to, const float* source, void* target, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_any)
  (to, source, target, static_cast<std::size_t>(count));
}

}  // namespace sinter::runtime::cpu
#endif
