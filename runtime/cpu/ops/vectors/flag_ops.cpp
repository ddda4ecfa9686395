// SPDX-License-Identifier: Apache-2.0
// Comparisons, which yield bools.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/vectors/flag_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// a <= b. Highway has it for floats, where it is not the opposite of b < a.
template <class Tag, class Vec>
HWY_INLINE auto at_most(Tag, Vec a, Vec b) {
  if constexpr (std::is_integral_v<hn::TFromD<Tag>>)
    return hn::Not(hn::Lt(b, a));
  else
    return hn::Le(a, b);
}

#define SINTER_TEST(name, test)                         \
  struct name {                                         \
    template <class Tag, class Vec>                     \
    static HWY_INLINE auto apply(Tag d, Vec a, Vec b) { \
      (void)d, (void)b;                                 \
      return test;                                      \
    }                                                   \
  };
SINTER_TEST(EqualOp, hn::Eq(a, b))
SINTER_TEST(NotEqualOp, hn::Not(hn::Eq(a, b)))
SINTER_TEST(LessOp, hn::Lt(a, b))
SINTER_TEST(LessEqualOp, at_most(d, a, b))
SINTER_TEST(NanOp, hn::Not(hn::Eq(a, b)))  // of a value and itself
SINTER_TEST(InfinityOp, hn::Eq(hn::Abs(a), hn::Set(d, std::numeric_limits<float>::infinity())))
#undef SINTER_TEST

/// A vector's flags as bytes of 0 and 1.
template <class Tag, class Mask>
HWY_INLINE void store_flags(Tag, Mask flags, std::uint8_t* to) {
  const hn::RebindToUnsigned<Tag> du;
  const hn::Rebind<std::uint8_t, Tag> bytes;
  using Word = hn::TFromD<decltype(du)>;
  const auto ones = hn::IfThenElseZero(hn::RebindMask(du, flags), hn::Set(du, Word{1}));
  hn::StoreU(hn::TruncateTo(bytes, ones), bytes, to);
}

template <class T, class Op, bool kColumnsA, bool kColumnsB>
HWY_INLINE void compare_row(const T* a, const T* b, std::uint8_t* out, std::size_t n) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto left = hn::Set(d, *a), right = hn::Set(d, *b);
  const auto test = [&](const T* va, const T* vb, std::uint8_t* to) {
    store_flags(
        d, Op::apply(d, kColumnsA ? hn::LoadU(d, va) : left, kColumnsB ? hn::LoadU(d, vb) : right),
        to);
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) test(a + i, b + i, out + i);
  if (i == n) return;
  T padded_a[hn::MaxLanes(hn::ScalableTag<T>())] = {}, padded_b[std::size(padded_a)] = {};
  std::uint8_t flags[std::size(padded_a)];
  if (kColumnsA) std::copy(a + i, a + n, padded_a);
  if (kColumnsB) std::copy(b + i, b + n, padded_b);
  test(padded_a, padded_b, flags);
  std::copy_n(flags, n - i, out + i);
}

/// kSwap: computes greater as less with swapped operands.
template <class T, class Op, bool kSwap>
void compare(const OpArgs& t) {
  const View va = t.args[kSwap ? 1 : 0], vb = t.args[kSwap ? 0 : 1];
  const auto n = static_cast<std::size_t>(t.cols);
  for (std::int64_t r = 0; n > 0 && r < t.rows; ++r) {
    const T* a = static_cast<const T*>(va.data) + r * va.row_stride;
    const T* b = static_cast<const T*>(vb.data) + r * vb.row_stride;
    auto* out = static_cast<std::uint8_t*>(t.result) + r * t.result_stride;
    if (va.per_column) {
      vb.per_column ? compare_row<T, Op, true, true>(a, b, out, n)
                    : compare_row<T, Op, true, false>(a, b, out, n);
    } else if (vb.per_column) {
      compare_row<T, Op, false, true>(a, b, out, n);
    } else {
      std::uint8_t flag = 0;
      compare_row<T, Op, true, true>(a, b, &flag, 1);
      std::fill_n(out, n, flag);
    }
  }
}

/// Tests of one operand.
template <class Op>
void test_each(const OpArgs& t) {
  OpArgs twice = t;
  twice.args[1] = t.args[0];
  compare<float, Op, false>(twice);
}

template <class T>
OpKernel find_test(ScalarOp op) {
  switch (op) {
    case ScalarOp::kEqual: return compare<T, EqualOp, false>;
    case ScalarOp::kNotEqual: return compare<T, NotEqualOp, false>;
    case ScalarOp::kLess: return compare<T, LessOp, false>;
    case ScalarOp::kLessEqual: return compare<T, LessEqualOp, false>;
    case ScalarOp::kGreater: return compare<T, LessOp, true>;
    case ScalarOp::kGreaterEqual: return compare<T, LessEqualOp, true>;
    default: return nullptr;
  }
}

OpKernel find_flags(ScalarOp op, DType operand) {
  switch (operand) {
    case DType::kFloat32:
      if (op == ScalarOp::kIsNan) return test_each<NanOp>;
      if (op == ScalarOp::kIsInf) return test_each<InfinityOp>;
      return find_test<float>(op);
    case DType::kFloat64: return find_test<double>(op);
    case DType::kInt32: return find_test<std::int32_t>(op);
    case DType::kInt64: return find_test<std::int64_t>(op);
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_flags);

OpKernel find_flag_kernel(ScalarOp op, DType operand, DType result) {
  return result == DType::kBool ? HWY_DYNAMIC_DISPATCH(find_flags)(op, operand) : nullptr;
}

}  // namespace sinter::runtime::cpu
#endif
