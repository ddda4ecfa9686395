// SPDX-License-Identifier: Apache-2.0
// Functions computed in float64: those of float64, powers of float32, casts to int64.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/vectors/wide_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<double>;
using WideV = hn::Vec<Wide>;

/// Elements that `is_plain` does not hold of go to the C library one by one, so that a result does
/// not depend on its neighbours.
template <class T, class Mask, class Function>
HWY_INLINE void repair(Mask is_plain, std::size_t lanes, T* results, const Function& function) {
  const Wide d;
  if (HWY_LIKELY(hn::AllTrue(d, is_plain))) return;
  HWY_ALIGN double flags[hn::MaxLanes(Wide())];
  hn::Store(hn::IfThenElseZero(is_plain, hn::Set(d, 1.0)), d, flags);
  for (std::size_t i = 0; i < lanes; ++i)
    if (flags[i] == 0) results[i] = function(i);
}

/// Calls one(first, count) for vectors of a row, and finally for what is left of it.
template <class One>
HWY_INLINE void for_vectors(std::size_t count, const One& one) {
  const std::size_t lanes = hn::Lanes(Wide());
  for (std::size_t i = 0; i < count; i += lanes) one(i, std::min(lanes, count - i));
}

HWY_INLINE WideV load_wide(const double* from, std::size_t count) {
  const Wide d;
  if (count == hn::Lanes(d)) return hn::LoadU(d, from);
  HWY_ALIGN double lanes[hn::MaxLanes(Wide())] = {};
  std::copy_n(from, count, lanes);
  return hn::Load(d, lanes);
}
HWY_INLINE WideV load_wide(const float* from, std::size_t count) {
  const Wide d;
  const hn::Rebind<float, Wide> narrow;
  if (count == hn::Lanes(d)) return hn::PromoteTo(d, hn::LoadU(narrow, from));
  HWY_ALIGN float lanes[hn::MaxLanes(Wide())] = {};
  std::copy_n(from, count, lanes);
  return hn::PromoteTo(d, hn::Load(narrow, lanes));
}

struct WideSqrtOp {
  static HWY_INLINE WideV apply(WideV x) { return hn::Sqrt(x); }
  static HWY_INLINE auto is_plain(WideV x) { return hn::Eq(x, x); }
  static double one(double x) { return std::sqrt(x); }
};
struct WideExpOp {
  static HWY_INLINE WideV apply(WideV x) { return hn::Exp(Wide(), x); }
  static HWY_INLINE auto is_plain(WideV x) { return hn::Le(hn::Abs(x), hn::Set(Wide(), 700.0)); }
  static double one(double x) { return std::exp(x); }
};

template <class Op>
void wide_unary(const OpArgs& t) {
  const View of = t.args[0];
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const auto* x = static_cast<const double*>(of.data) + r * of.row_stride;
    auto* y = static_cast<double*>(t.result) + r * t.result_stride;
    if (!of.per_column) {
      std::fill_n(y, t.cols, Op::one(*x));
      continue;
    }
    for_vectors(static_cast<std::size_t>(t.cols), [&](std::size_t i, std::size_t count) {
      const WideV given = load_wide(x + i, count);
      const auto is_plain = Op::is_plain(given);
      if (HWY_LIKELY(count == hn::Lanes(Wide()) && hn::AllTrue(Wide(), is_plain)))
        return hn::StoreU(Op::apply(given), Wide(), y + i);
      HWY_ALIGN double results[hn::MaxLanes(Wide())];
      hn::Store(Op::apply(given), Wide(), results);
      repair(is_plain, count, results, [&](std::size_t k) { return Op::one(x[i + k]); });
      std::copy_n(results, count, y + i);
    });
  }
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3  // others have no such instruction
/// Truncates to int64, as ONNX casts do: saturated, NaN becomes 0.
template <typename From>
void to_int64(const OpArgs& t) {
  const Wide d;
  const hn::RebindToSigned<Wide> di;
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  const View of = t.args[0];
  for (std::int64_t r = 0; t.cols > 0 && r < t.rows; ++r) {
    const auto* x = static_cast<const From*>(of.data) + r * of.row_stride;
    auto* y = static_cast<std::int64_t*>(t.result) + r * t.result_stride;
    const auto convert = [&](std::size_t i, std::size_t count) {
      const WideV given = load_wide(x + i, count);
      const auto fits = hn::Lt(given, hn::Set(d, kLimit));
      const auto whole =
          hn::ConvertTo(di, hn::IfThenElseZero(fits, hn::Max(given, hn::Set(d, -kLimit))));
      const auto result = hn::IfThenElse(hn::RebindMask(di, hn::Ge(given, hn::Set(d, kLimit))),
                                         hn::Set(di, INT64_MAX), whole);
      if (count == hn::Lanes(d)) return hn::StoreU(result, di, y + i);
      HWY_ALIGN std::int64_t lanes[hn::MaxLanes(Wide())];
      hn::Store(result, di, lanes);
      std::copy_n(lanes, count, y + i);
    };
    if (of.per_column) {
      for_vectors(static_cast<std::size_t>(t.cols), convert);
    } else {
      convert(0, 1);
      std::fill_n(y + 1, t.cols - 1, y[0]);
    }
  }
}

#endif

/// float32 powers of positive normal numbers in float64, rounded once. Squares are exact products.
void power(const OpArgs& t) {
  const Wide d;
  const hn::Rebind<float, Wide> narrow;
  const View base = t.args[0], exponent = t.args[1];
  const auto one = [](float a, float b) { return b == 2 ? a * a : std::pow(a, b); };
  for (std::int64_t r = 0; t.cols > 0 && r < t.rows; ++r) {
    const auto* a = static_cast<const float*>(base.data) + r * base.row_stride;
    const auto* b = static_cast<const float*>(exponent.data) + r * exponent.row_stride;
    auto* y = static_cast<float*>(t.result) + r * t.result_stride;
    const std::int64_t step_a = base.per_column, step_b = exponent.per_column;
    if (step_b == 0 && *b == 2) {
      for (std::int64_t c = 0; c < t.cols; ++c) y[c] = a[c * step_a] * a[c * step_a];
      continue;
    }
    const WideV same_a = hn::Set(d, static_cast<double>(*a)),
                same_b = hn::Set(d, static_cast<double>(*b));
    for_vectors(static_cast<std::size_t>(t.cols), [&](std::size_t i, std::size_t count) {
      const WideV x = step_a != 0 ? load_wide(a + i, count) : same_a,
                  to = step_b != 0 ? load_wide(b + i, count) : same_b;
      const WideV log = hn::Mul(to, hn::Log(d, hn::Max(x, hn::Set(d, 1e-40))));
      // What is left out: zeros, negative and subnormal numbers, infinities, NaN, and results that
      // are none of float32's normal numbers.
      const auto is_plain =
          hn::And(hn::And(hn::Ge(x, hn::Set(d, 1e-37)), hn::Le(x, hn::Set(d, 3.5e38))),
                  hn::And(hn::Le(hn::Abs(log), hn::Set(d, 87.0)), hn::Ne(to, hn::Set(d, 2.0))));
      const WideV power = hn::Exp(d, hn::IfThenElseZero(is_plain, log));
      HWY_ALIGN float results[hn::MaxLanes(Wide())];
      hn::Store(hn::DemoteTo(narrow, power), narrow, results);
      repair(is_plain, count, results, [&](std::size_t k) {
        const auto c = static_cast<std::int64_t>(i + k);
        return one(a[c * step_a], b[c * step_b]);
      });
      std::copy_n(results, count, y + i);
    });
  }
}

OpKernel find_wide(ScalarOp op, DType operand, DType result) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (op == ScalarOp::kCast && result == DType::kInt64) {
    if (operand == DType::kFloat32) return to_int64<float>;
    return operand == DType::kFloat64 ? to_int64<double> : nullptr;
  }
#endif
  if (operand != result) return nullptr;
  if (operand == DType::kFloat32) return op == ScalarOp::kPow ? power : nullptr;
  if (operand != DType::kFloat64) return nullptr;
  if (op == ScalarOp::kSqrt) return wide_unary<WideSqrtOp>;
  return op == ScalarOp::kExp ? wide_unary<WideExpOp> : nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_wide);

OpKernel find_wide_kernel(ScalarOp op, DType operand, DType result) {
  return HWY_DYNAMIC_DISPATCH(find_wide)(op, operand, result);
}

}  // namespace sinter::runtime::cpu
#endif
