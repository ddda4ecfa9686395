// SPDX-License-Identifier: Apache-2.0
// Rows of windows in shared memory.
#pragma once

#include "reduce.cuh"
#include "vector.cuh"

/// N elements from `from` + kLead on as values to compute with, V at a time. `from` is aligned to V
/// elements; up to the next multiple of V behind are read.
template <int V, int kLead, int N, class T, class Value>
SINTER_DEVICE void read_slots(const T* from, Value (&to)[N]) {
  if constexpr (V == 1) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = widen(from[kLead + i]);
  } else {
#pragma unroll
    for (int i = kLead / V * V; i < kLead + N; i += V) {
      const Vec<T, V> part = load<V>(from + i);
#pragma unroll
      for (int j = 0; j < V; ++j)
        if (i + j >= kLead && i + j < kLead + N) to[i + j - kLead] = widen(part, j);
    }
  }
}

/// The same for values that were computed before.
template <int V, int N, class Value>
SINTER_DEVICE void read_values(const Value* from, Value (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += V) {
    const Vec<Value, V> part = load<V>(from + i);
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (i + j < N) to[i + j] = part.v[j];
  }
}

/// Whether an element may be taken twice.
template <class Combine>
struct IsIdempotent {
  static constexpr bool value = false;
};
template <>
struct IsIdempotent<Max> {
  static constexpr bool value = true;
};
template <>
struct IsIdempotent<Min> {
  static constexpr bool value = true;
};

/// Reduces N windows of kWidth elements, kDilation apart, that begin kStep apart. Maxima of windows
/// as long as the largest power of two first: a window is two of them, for log2 steps in all.
template <class Combine, int kWidth, int kStep, int kDilation, class T, int kSlots, int N>
SINTER_DEVICE void reduce_windows(const T (&slots)[kSlots], T (&windows)[N]) {
  if constexpr (IsIdempotent<Combine>::value && kWidth > 3) {
    T part[kSlots];
#pragma unroll
    for (int i = 0; i < kSlots; ++i) part[i] = slots[i];
    constexpr int kHalf = kWidth >= 64   ? 64
                          : kWidth >= 32 ? 32
                          : kWidth >= 16 ? 16
                          : kWidth >= 8  ? 8
                                         : 4;
#pragma unroll
    for (int length = 1; length < kHalf; length *= 2)
#pragma unroll
      for (int i = 0; i + length * kDilation < kSlots; ++i)
        part[i] = Combine::of(part[i], part[i + length * kDilation]);
#pragma unroll
    for (int n = 0; n < N; ++n)
      windows[n] = Combine::of(part[n * kStep], part[n * kStep + (kWidth - kHalf) * kDilation]);
  } else {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      windows[n] = slots[n * kStep];
#pragma unroll
      for (int k = 1; k < kWidth; ++k)
        windows[n] = Combine::of(windows[n], slots[n * kStep + k * kDilation]);
    }
  }
}
