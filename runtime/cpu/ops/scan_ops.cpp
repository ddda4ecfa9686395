// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/scan_ops.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/scan_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {

template <typename T>
using Carry = std::conditional_t<std::is_same_v<T, float>, double, T>;

template <Combine kCombine, typename T>
struct Scan {
  using C = Carry<T>;
  static_assert(sizeof(C) <= kAccumulatorBytes);

  static C of(C a, C b) { return combine_values<C>(kCombine, a, b); }

  static C identity() {
    using Limits = std::numeric_limits<C>;
    switch (kCombine) {
      case Combine::kSum: return C(0);
      case Combine::kProd: return C(1);
      case Combine::kMax: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
      case Combine::kMin: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    }
    return C(0);
  }

  static void init(void* carries, std::int64_t count) {
    std::fill_n(static_cast<C*>(carries), count, identity());
  }

  static void along_rows(const ScanArgs& args) {
    const std::int64_t step = args.value.per_column ? 1 : 0;
    for (std::int64_t r = 0; r < args.rows; ++r) {
      const T* x = static_cast<const T*>(args.value.data) + r * args.value.row_stride;
      T* y = static_cast<T*>(args.result) + r * args.result_stride;
      C& total = static_cast<C*>(args.carries)[r];
      C carry = total;
      std::int64_t c = 0;
      // Four at a time: only one operation in four depends on the previous block.
      for (; c + 4 <= args.cols; c += 4, x += 4 * step) {
        const C first = static_cast<C>(x[0]);
        const C second = of(first, static_cast<C>(x[step]));
        const C third = of(second, static_cast<C>(x[2 * step]));
        const C fourth = of(third, static_cast<C>(x[3 * step]));
        C before = carry;
        std::int64_t at = c;
        if (args.exclusive) y[at++] = static_cast<T>(before);
        y[at] = static_cast<T>(of(before, first));
        y[at + 1] = static_cast<T>(of(before, second));
        y[at + 2] = static_cast<T>(of(before, third));
        carry = of(before, fourth);
        if (!args.exclusive) y[at + 3] = static_cast<T>(carry);
      }
      for (; c < args.cols; ++c, x += step) {
        const C before = carry;
        carry = of(carry, static_cast<C>(*x));
        y[c] = static_cast<T>(args.exclusive ? before : carry);
      }
      total = carry;
    }
  }

  /// Row by row, as memory lies; carries stay in the L1 cache.
  static void along_columns(const ScanArgs& args) {
    C* carry = static_cast<C*>(args.carries);
    const std::int64_t step = args.value.per_column ? 1 : 0;
    for (std::int64_t r = 0; r < args.rows; ++r) {
      const T* x = static_cast<const T*>(args.value.data) + r * args.value.row_stride;
      T* y = static_cast<T*>(args.result) + r * args.result_stride;
      const std::int64_t cols = args.cols;
      const C first = static_cast<C>(*x);
      const auto column = [&](std::int64_t c, C value) {
        const C before = carry[c], after = of(before, value);
        carry[c] = after;
        y[c] = static_cast<T>(args.exclusive ? before : after);
      };
      if (step == 0) {
        for (std::int64_t c = 0; c < cols; ++c) column(c, first);
      } else if (args.exclusive) {
#pragma omp simd
        for (std::int64_t c = 0; c < cols; ++c) {
          y[c] = static_cast<T>(carry[c]);
          carry[c] = of(carry[c], static_cast<C>(x[c]));
        }
      } else {
#pragma omp simd
        for (std::int64_t c = 0; c < cols; ++c) {
          const C after = of(carry[c], static_cast<C>(x[c]));
          carry[c] = after;
          y[c] = static_cast<T>(after);
        }
      }
    }
  }
};

template <Combine kCombine>
ScanKernels find(DType type) {
  ScanKernels kernels;
  with_compute_type(type, [&](auto* kind) {
    using Of = Scan<kCombine, std::remove_pointer_t<decltype(kind)>>;
    kernels = {Of::init, Of::along_rows, Of::along_columns};
  });
  return kernels;
}

ScanKernels find_kernels(Combine combine, DType type) {
  switch (combine) {
    case Combine::kSum: return find<Combine::kSum>(type);
    case Combine::kProd: return find<Combine::kProd>(type);
    case Combine::kMax: return find<Combine::kMax>(type);
    case Combine::kMin: return find<Combine::kMin>(type);
  }
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_kernels);

ScanKernels find_scan_kernels(Combine combine, DType type) {
  return HWY_DYNAMIC_DISPATCH(find_kernels)(combine, type);
}

}  // namespace sinter::runtime::cpu
#endif
