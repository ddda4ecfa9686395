// SPDX-License-Identifier: Apache-2.0
// Combines the elements of overlapping float32 windows in registers.
#include <algorithm>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/vectors/window_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

#include "runtime/cpu/ops/vectors/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// kCount: the number of taps, if it is known.
template <class Op, std::int64_t kCount>
HWY_INLINE void one_row(const float* from, const std::int64_t* taps, std::int64_t taps_count,
                        std::int64_t columns, float* to) {
  const D d;
  const std::int64_t count = kCount > 0 ? kCount : taps_count;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    V value = hn::LoadU(d, from + taps[0] + c);
    for (std::int64_t k = 1; k < count; ++k)
      value = Op::apply(d, value, hn::LoadU(d, from + taps[k] + c));
    hn::StoreU(value, d, to + c);
  }
  if (c == columns) return;
  const auto left = static_cast<std::size_t>(columns - c);
  V value = load_tail(d, from + taps[0] + c, left);
  for (std::int64_t k = 1; k < count; ++k)
    value = Op::apply(d, value, load_tail(d, from + taps[k] + c, left));
  store_tail(d, value, to + c, left);
}

template <class Op>
void combine_rows(const WindowRows& t) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const float* from = t.from + r * t.from_step;
    float* to = t.to + r * t.to_step;
    switch (t.count) {
      case 2: one_row<Op, 2>(from, t.taps, 2, t.columns, to); break;
      case 3: one_row<Op, 3>(from, t.taps, 3, t.columns, to); break;
      default: one_row<Op, 0>(from, t.taps, t.count, t.columns, to);
    }
  }
}

/// Every kStride-th element. Loads include those between and after them.
template <int kStride>
HWY_INLINE V take(D d, const float* from) {
  V a, b, c, e;
  if constexpr (kStride == 1) {
    a = hn::LoadU(d, from);
  } else if constexpr (kStride == 2) {
    hn::LoadInterleaved2(d, from, a, b);
  } else if constexpr (kStride == 3) {
    hn::LoadInterleaved3(d, from, a, b, c);
  } else {
    hn::LoadInterleaved4(d, from, a, b, c, e);
  }
  return a;
}

template <class Op, int kStride>
void combine_along_by(const WindowRows& t) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const float* from = t.from + r * t.from_step;
    float* to = t.to + r * t.to_step;
    for (std::int64_t c = 0; c < t.columns; c += lanes) {
      V value = take<kStride>(d, from + c * kStride + t.taps[0]);
      for (std::int64_t k = 1; k < t.count; ++k)
        value = Op::apply(d, value, take<kStride>(d, from + c * kStride + t.taps[k]));
      if (c + lanes <= t.columns)
        hn::StoreU(value, d, to + c);
      else
        store_tail(d, value, to + c, static_cast<std::size_t>(t.columns - c));
    }
  }
}

template <class Op>
void combine_along(const WindowRows& t) {
  switch (t.stride) {
    case 1: return combine_along_by<Op, 1>(t);
    case 2: return combine_along_by<Op, 2>(t);
    case 3: return combine_along_by<Op, 3>(t);
    default: return combine_along_by<Op, 4>(t);
  }
}

WindowKernels find_windows(Combine combine) {
  switch (combine) {
    case Combine::kSum: return {combine_rows<AddOp>, combine_along<AddOp>};
    case Combine::kMax: return {combine_rows<MaxOp>, combine_along<MaxOp>};
    case Combine::kMin: return {combine_rows<MinOp>, combine_along<MinOp>};
    default: return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_windows);

WindowKernels find_window_kernels(Combine combine) {
  return HWY_DYNAMIC_DISPATCH(find_windows)(combine);
}

}  // namespace sinter::runtime::cpu
#endif
