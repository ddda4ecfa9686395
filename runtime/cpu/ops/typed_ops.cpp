// SPDX-License-Identifier: Apache-2.0
// Kernels for every type, in plain loops, which the compiler vectorizes for each set of
// instructions.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <sinter/float8.h>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/tile_ops.h"
// Integers and float64 gain from the width of AVX2 and AVX-512. Each set costs 0.4 MB: the others
// are left out.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/typed_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

#include "runtime/cpu/ops/vectors/scalar_functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {

/// A bool: 0 or 1 in a byte. A separate type, so that overloads distinguish it from uint8.
enum class Byte : std::uint8_t {};

template <typename T>
const T* row_of(const View& view, std::int64_t r) {
  return static_cast<const T*>(view.data) + r * view.row_stride;
}

/// Elements do not depend on each other. GCC would not vectorize loops over lambdas on its own
/// here.
#define SINTER_EACH _Pragma("omp simd")

// Loops use local pointers and counts. A byte store may alias anything read through `t`, which
// would prevent vectorization.

template <typename A, typename R, typename F>
void map1(const OpArgs& t, F f) {
  const std::int64_t cols = t.cols;
  for (std::int64_t r = 0; r < t.rows; ++r) {
    R* out = static_cast<R*>(t.result) + r * t.result_stride;
    const A* a = row_of<A>(t.args[0], r);
    if (t.args[0].per_column) {
      SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) out[c] = f(a[c]);
    } else if (cols > 0)
      std::fill_n(out, cols, f(*a));
  }
}

template <typename A, typename R, typename F>
void map2(const OpArgs& t, F f) {
  const std::int64_t cols = t.cols;
  for (std::int64_t r = 0; cols > 0 && r < t.rows; ++r) {
    R* out = static_cast<R*>(t.result) + r * t.result_stride;
    const A *a = row_of<A>(t.args[0], r), *b = row_of<A>(t.args[1], r);
    const A first_a = *a, first_b = *b;
    if (t.args[0].per_column && t.args[1].per_column) {
      SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) out[c] = f(a[c], b[c]);
    } else if (t.args[0].per_column) {
      SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) out[c] = f(a[c], first_b);
    } else if (t.args[1].per_column) {
      SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) out[c] = f(first_a, b[c]);
    } else
      std::fill_n(out, cols, f(first_a, first_b));
  }
}

// ---- arithmetic

/// Divides by a constant through its reciprocal in 64-bit fixed point, rounded up. The high half of
/// the multiplication is at most one too large. Takes an eighth of a division's time.
class Divisor {
 public:
  explicit Divisor(std::uint64_t by) : by_(by), reciprocal_(~std::uint64_t{0} / by + 1) {}
  /// Requires values below 2^63.
  std::uint64_t quotient(std::uint64_t of) const {
    const auto high =
        static_cast<std::uint64_t>((static_cast<unsigned __int128>(of) * reciprocal_) >> 64);
    return high - (of < high * by_);
  }

 private:
  std::uint64_t by_, reciprocal_;  // by > 1
};

/// Divides each row by one number with Divisor; rows outside its range use plain division.
template <typename T, ScalarOp Op>
bool divided_by_rows(const OpArgs& t) {
  if constexpr (std::is_integral_v<T> && sizeof(T) >= 4 &&
                (Op == ScalarOp::kDiv || Op == ScalarOp::kMod)) {
    constexpr std::int64_t kFew = 8;
    if (t.args[1].per_column || !t.args[0].per_column || t.cols < kFew) return false;
    const std::int64_t cols = t.cols;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      const T* a = row_of<T>(t.args[0], r);
      T* out = static_cast<T*>(t.result) + r * t.result_stride;
      const T by = *row_of<T>(t.args[1], r);
      T least = a[0], most = a[0];
      for (std::int64_t c = 0; c < cols; ++c) {
        least = std::min(least, a[c]);
        most = std::max(most, a[c]);
      }
      if (by <= 1 || std::cmp_less(least, 0) || static_cast<std::uint64_t>(most) >> 63 != 0) {
        for (std::int64_t c = 0; c < cols; ++c) out[c] = arithmetic<T, Op>(a[c], by);
        continue;
      }
      const Divisor divisor(static_cast<std::uint64_t>(by));
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto quotient = static_cast<T>(divisor.quotient(static_cast<std::uint64_t>(a[c])));
        out[c] = Op == ScalarOp::kDiv ? quotient : static_cast<T>(a[c] - quotient * by);
      }
    }
    return true;
  }
  return false;
}

template <typename T, ScalarOp Op>
void arithmetic_kernel(const OpArgs& t) {
  if (divided_by_rows<T, Op>(t)) return;
  map2<T, T>(t, [](T a, T b) { return arithmetic<T, Op>(a, b); });
}
template <typename T, ScalarOp Op>
void function_kernel(const OpArgs& t) {
  map1<T, T>(t, [](T a) { return function<T, Op>(a); });
}
template <typename T, ScalarOp Op>
void test_kernel(const OpArgs& t) {
  map2<T, std::uint8_t>(t, [](T a, T b) -> std::uint8_t { return test<T, Op>(a, b); });
}
template <typename T>
void select_kernel(const OpArgs& t) {
  const std::int64_t cols = t.cols;
  const bool flags = t.args[0].per_column;
  const std::int64_t step_a = t.args[1].per_column, step_b = t.args[2].per_column;
  for (std::int64_t r = 0; cols > 0 && r < t.rows; ++r) {
    T* out = static_cast<T*>(t.result) + r * t.result_stride;
    const auto* flag = row_of<std::uint8_t>(t.args[0], r);
    const T *a = row_of<T>(t.args[1], r), *b = row_of<T>(t.args[2], r);
    const T first_a = *a, first_b = *b;
    if (!flags) {
      const T* chosen = *flag ? a : b;
      const T first = *chosen;
      if ((*flag ? step_a : step_b) == 0)
        std::fill_n(out, cols, first);
      else
        std::memmove(out, chosen, static_cast<std::size_t>(cols) * sizeof(T));
    } else if (step_a != 0 && step_b != 0) {
      SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) {
        const T yes = a[c], no = b[c];
        out[c] = flag[c] ? yes : no;
      }
    } else if (step_a != 0) {
      SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) {
        const T yes = a[c];
        out[c] = flag[c] ? yes : first_b;
      }
    } else if (step_b != 0) {
      SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) {
        const T no = b[c];
        out[c] = flag[c] ? first_a : no;
      }
    } else {
      SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) out[c] = flag[c] ? first_a : first_b;
    }
  }
}

// ---- casts. Floats to integers truncate and saturate, NaN becomes 0; integers wrap.

template <typename To, typename From>
To cast(From value) {
  if constexpr (std::is_same_v<To, Byte>) {
    if constexpr (std::is_same_v<From, Byte>)
      return value;
    else
      return static_cast<Byte>(value != 0);
  } else if constexpr (std::is_same_v<From, Byte>) {
    return static_cast<To>(static_cast<std::uint8_t>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    if (value != value) return 0;
    if (value <= static_cast<From>(Limits::min())) return Limits::min();
    if (value >= static_cast<From>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void cast_kernel(const OpArgs& t) {
  map1<From, To>(t, [](From value) { return cast<To>(value); });
}

template <typename From>
float cast_to_odd(From value) {
  if constexpr (std::is_floating_point_v<From>) {
    return round_to_odd(value);
  } else {
    const std::uint64_t size = value < 0 ? 0 - static_cast<std::uint64_t>(value) : value;
    const int shift = std::max(0, 64 - std::countl_zero(size) - 24);
    const std::uint64_t kept = size >> shift;
    const float odd = static_cast<float>(kept << shift != size ? kept | 1 : kept);
    const float result = odd * static_cast<float>(std::uint64_t{1} << shift);
    return value < 0 ? -result : result;
  }
}

template <typename From>
OpKernel find_cast(DType to) {
  if (to == DType::kBool) return cast_kernel<From, Byte>;
  return with_number_type(
      to, [](auto value) -> OpKernel { return cast_kernel<From, decltype(value)>; });
}

template <typename T>
void copy_kernel(const OpArgs& t) {
  map1<T, T>(t, [](T value) { return value; });
}

/// Copies bits, regardless of type.
OpKernel find_copy(std::size_t size) {
  switch (size) {
    case 1: return copy_kernel<std::uint8_t>;
    case 2: return copy_kernel<std::uint16_t>;
    case 4: return copy_kernel<std::uint32_t>;
    default: return copy_kernel<std::uint64_t>;
  }
}

// ---- tables

/// The kernel for the one of kOps that equals `op`; null if none does.
template <ScalarOp... kOps>
OpKernel pick(ScalarOp op, const auto& kernel) {
  OpKernel found = nullptr;
  (void)((op == kOps && (found = kernel.template operator()<kOps>())) || ...);
  return found;
}

template <typename T>
OpKernel find_numeric(ScalarOp op) {
  using enum ScalarOp;
  const auto arithmetic = []<ScalarOp kOp>() -> OpKernel { return arithmetic_kernel<T, kOp>; };
  const auto function = []<ScalarOp kOp>() -> OpKernel { return function_kernel<T, kOp>; };
  const auto test = []<ScalarOp kOp>() -> OpKernel { return test_kernel<T, kOp>; };
  OpKernel found = pick<kAdd, kSub, kMul, kDiv, kMod, kFmod, kPow, kMin, kMax>(op, arithmetic);
  if (!found) found = pick<kNeg, kAbs, kSign, kFloor, kCeil, kRound>(op, function);
  if (!found) found = pick<kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual>(op, test);
  if (op == kSelect) return select_kernel<T>;
  if (found) return found;
  if constexpr (std::is_floating_point_v<T>) {
    if (op == kQuotient) return arithmetic_kernel<T, kQuotient>;
    if (op == kIsNan)
      return [](const OpArgs& t) {
        map1<T, std::uint8_t>(t, [](T a) -> std::uint8_t { return std::isnan(a); });
      };
    if (op == kIsInf)
      return [](const OpArgs& t) {
        map1<T, std::uint8_t>(t, [](T a) -> std::uint8_t { return std::isinf(a); });
      };
    return pick<kSqrt, kRsqrt, kReciprocal, kExp, kLog, kErf, kTanh, kSin, kCos, kAtan, kExpm1,
                kLog1p, kToE4M3FN, kToE5M2, kToE4M3FNUZ, kToE5M2FNUZ>(op, function);
  } else {
    if (op == kBitNot) return function_kernel<T, kBitNot>;
    return pick<kBitAnd, kBitOr, kBitXor, kShiftLeft, kShiftRight>(op, arithmetic);
  }
}

template <ScalarOp Op>
void logical_kernel(const OpArgs& t) {
  using enum ScalarOp;
  map2<std::uint8_t, std::uint8_t>(t, [](std::uint8_t a, std::uint8_t b) -> std::uint8_t {
    if constexpr (Op == kAnd) return a & b;
    if constexpr (Op == kOr) return a | b;
    return a ^ b;  // xor and not-equal are the same
  });
}

OpKernel find_bool(ScalarOp op) {
  using enum ScalarOp;
  switch (op) {
    case kAnd: return logical_kernel<kAnd>;
    case kOr: return logical_kernel<kOr>;
    case kXor:
    case kNotEqual: return logical_kernel<kXor>;
    case kEqual: return test_kernel<std::uint8_t, kEqual>;
    case kNot:
      return [](const OpArgs& t) {
        map1<std::uint8_t, std::uint8_t>(t, [](std::uint8_t a) -> std::uint8_t { return a ^ 1; });
      };
    case kSelect: return select_kernel<std::uint8_t>;
    default: return nullptr;
  }
}

// ---- reductions

template <typename T, Combine kCombine>
T combine(T a, T b) {
  if constexpr (kCombine == Combine::kSum) return arithmetic<T, ScalarOp::kAdd>(a, b);
  if constexpr (kCombine == Combine::kProd) return arithmetic<T, ScalarOp::kMul>(a, b);
  if constexpr (kCombine == Combine::kMax) return arithmetic<T, ScalarOp::kMax>(a, b);
  return arithmetic<T, ScalarOp::kMin>(a, b);
}

/// The index of the first true flag in each row; one accumulator per row.
template <typename T>
void flagged_columns(const ReduceArgs& t, std::int64_t first) {
  T* acc = static_cast<T*>(t.accumulators);
  for (std::int64_t r = 0; t.cols > 0 && r < t.rows; ++r) {
    if (acc[r] <= static_cast<T>(first)) continue;
    const auto* flags = row_of<std::uint8_t>(t.value, r);
    const std::int64_t cols = t.value.per_column ? t.cols : 1;
    const void* found = std::memchr(flags, 1, static_cast<std::size_t>(cols));
    if (found == nullptr) continue;
    const std::int64_t column = static_cast<const std::uint8_t*>(found) - flags;
    acc[r] = std::min(acc[r], static_cast<T>(first + column));
  }
}

/// The same for each column.
template <typename T>
void flagged_rows(const ReduceArgs& t, std::int64_t first) {
  T* acc = static_cast<T*>(t.accumulators);
  const std::int64_t cols = t.cols, step = t.value.per_column;
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const auto* flags = row_of<std::uint8_t>(t.value, r);
    const T row = static_cast<T>(first + r);
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) {
      const T least = std::min(acc[c], row);
      acc[c] = flags[c * step] != 0 ? least : acc[c];
    }
  }
}

template <typename T, Combine kCombine>
ReduceKernels reduce_kernels() {
  using Limits = std::numeric_limits<T>;
  ReduceKernels kernels;
  kernels.init = [](void* accumulators, std::int64_t count) {
    constexpr T kLargest = Limits::has_infinity ? Limits::infinity() : Limits::max();
    constexpr T kSmallest = Limits::has_infinity ? -Limits::infinity() : Limits::min();
    constexpr T kIdentity = kCombine == Combine::kSum    ? T(0)
                            : kCombine == Combine::kProd ? T(1)
                            : kCombine == Combine::kMax  ? kSmallest
                                                         : kLargest;
    std::fill_n(static_cast<T*>(accumulators), count, kIdentity);
  };
  kernels.along_rows = [](const ReduceArgs& t) {
    T* acc = static_cast<T*>(t.accumulators);
    const std::int64_t cols = t.cols, step = t.value.per_column;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      const T* x = row_of<T>(t.value, r);
      T sum = acc[r];
      std::int64_t c = 0;
      // Several chains hide latency. Their number is fixed, so the order of sums is too.
      constexpr std::int64_t kChains = 64 / sizeof(T);
      if (step == 1 && cols >= kChains) {
        T chains[kChains];
        std::copy_n(x, kChains, chains);
        for (c = kChains; c + kChains <= cols; c += kChains)
          SINTER_EACH for (std::int64_t k = 0; k < kChains; ++k) chains[k] =
              combine<T, kCombine>(chains[k], x[c + k]);
        for (std::int64_t k = 0; k < kChains; ++k) sum = combine<T, kCombine>(sum, chains[k]);
      }
      for (; c < cols; ++c) sum = combine<T, kCombine>(sum, x[c * step]);
      acc[r] = sum;
    }
  };
  kernels.along_columns = [](const ReduceArgs& t) {
    T* __restrict acc = static_cast<T*>(t.accumulators);
    const std::int64_t cols = t.cols;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      const T* x = row_of<T>(t.value, r);
      const T first = *x;
      if (t.value.per_column)
        SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) acc[c] =
            combine<T, kCombine>(acc[c], x[c]);
      else
        SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) acc[c] =
            combine<T, kCombine>(acc[c], first);
    }
  };
  kernels.rows_anywhere = [](std::span<const void* const> rows, const void* fill,
                             std::int64_t first, std::int64_t cols, void* accumulators) {
    T* __restrict acc = static_cast<T*>(accumulators) + first;
    for (const void* row : rows) {
      const T* __restrict value = static_cast<const T*>(row);
      SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) acc[c] =
          combine<T, kCombine>(acc[c], value[c]);
    }
    if (fill == nullptr) return;
    const T value = *static_cast<const T*>(fill);
    SINTER_EACH for (std::int64_t c = 0; c < cols; ++c) acc[c] =
        combine<T, kCombine>(acc[c], value);
  };
  kernels.finish = [](const void* accumulators, void* result, std::int64_t count) {
    std::copy_n(static_cast<const T*>(accumulators), count, static_cast<T*>(result));
  };
  if constexpr (std::is_integral_v<T> && kCombine == Combine::kMin) {
    kernels.flagged_columns = flagged_columns<T>;
    kernels.flagged_rows = flagged_rows<T>;
  }
  return kernels;
}

OpKernel find_typed(ScalarOp op, DType operand, DType result) {
  if (op == ScalarOp::kBitCast)
    return result == DType::kBool ? cast_kernel<std::uint8_t, Byte> : find_copy(size_of(result));
  if (op == ScalarOp::kCast) {
    if (operand == DType::kBool) return find_cast<Byte>(result);
    return with_number_type(operand,
                            [&](auto value) { return find_cast<decltype(value)>(result); });
  }
  if (operand == DType::kBool) return find_bool(op);
  return with_number_type(operand, [&](auto value) { return find_numeric<decltype(value)>(op); });
}

OpKernel find_odd(DType operand) {
  return with_number_type(operand, [](auto value) -> OpKernel {
    using From = decltype(value);
    return [](const OpArgs& t) { map1<From, float>(t, [](From x) { return cast_to_odd(x); }); };
  });
}

ReduceKernels find_reduce(Combine combine, DType type) {
  return with_number_type(type, [&](auto value) -> ReduceKernels {
    using T = decltype(value);
    switch (combine) {
      case Combine::kSum: return reduce_kernels<T, Combine::kSum>();
      case Combine::kProd: return reduce_kernels<T, Combine::kProd>();
      case Combine::kMax: return reduce_kernels<T, Combine::kMax>();
      case Combine::kMin: return reduce_kernels<T, Combine::kMin>();
    }
    return {};
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_typed);
HWY_EXPORT(find_odd);
HWY_EXPORT(find_reduce);

OpKernel find_op_kernel(ScalarOp op, DType operand, DType result) {
  if (const OpKernel kernel = find_vector_kernel(op, operand, result)) return kernel;
  if (const OpKernel kernel = find_vector_integer_kernel(op, operand, result)) return kernel;
  if (const OpKernel kernel = find_flag_kernel(op, operand, result)) return kernel;
  if (const OpKernel kernel = find_wide_kernel(op, operand, result)) return kernel;
  return HWY_DYNAMIC_DISPATCH(find_typed)(op, operand, result);
}

OpKernel find_odd_cast(DType operand) { return HWY_DYNAMIC_DISPATCH(find_odd)(operand); }

ReduceKernels find_reduce_kernels(Combine combine, DType type) {
  return type == DType::kFloat32 ? find_vector_reduce(combine)
                                 : HWY_DYNAMIC_DISPATCH(find_reduce)(combine, type);
}

}  // namespace sinter::runtime::cpu
#endif
