// SPDX-License-Identifier: Apache-2.0
// Reductions over a row's threads, in a fixed order: equal inputs give equal bits.
#pragma once

#include "math.cuh"

struct Sum {
  template <class T>
  SINTER_DEVICE static T identity() {
    return T(0);
  }
  template <class T>
  SINTER_DEVICE static T of(T a, T b) {
    return add(a, b);
  }
};
struct Prod {
  template <class T>
  SINTER_DEVICE static T identity() {
    return T(1);
  }
  template <class T>
  SINTER_DEVICE static T of(T a, T b) {
    return multiply(a, b);
  }
};
struct Max {
  template <class T>
  SINTER_DEVICE static T identity() {
    return lowest_value<T>();
  }
  template <class T>
  SINTER_DEVICE static T of(T a, T b) {
    return maximum(a, b);
  }
};
struct Min {
  template <class T>
  SINTER_DEVICE static T identity() {
    return highest_value<T>();
  }
  template <class T>
  SINTER_DEVICE static T of(T a, T b) {
    return minimum(a, b);
  }
};

/// The value of lane `lane ^ mask`.
template <class T>
SINTER_DEVICE T exchange(T x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
SINTER_DEVICE bool exchange(bool x, int mask) {
  return __shfl_xor_sync(0xffffffffu, static_cast<int>(x), mask) != 0;
}
SINTER_DEVICE i8 exchange(i8 x, int mask) {
  return static_cast<i8>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), mask));
}
SINTER_DEVICE u8 exchange(u8 x, int mask) {
  return static_cast<u8>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), mask));
}
SINTER_DEVICE i16 exchange(i16 x, int mask) {
  return static_cast<i16>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), mask));
}
SINTER_DEVICE u16 exchange(u16 x, int mask) {
  return static_cast<u16>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), mask));
}

SINTER_DEVICE bool all_lanes(bool x) { return __ballot_sync(0xffffffffu, x) == 0xffffffffu; }

/// Reduces over groups of kLanes neighbouring lanes (a power of two, at most 32). All lanes of the
/// warp take part; each gets its group's result.
template <class Combine, int kLanes, class T>
SINTER_DEVICE T reduce_lanes(T x) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) x = Combine::of(x, exchange(x, mask));
  return x;
}

/// Reduces over a block of kWarps full warps; every thread gets the result. `scratch` holds kWarps
/// values; it may be reused only after a barrier.
template <class Combine, int kWarps, class T>
SINTER_DEVICE T reduce_block(T x, T* scratch) {
  x = reduce_lanes<Combine, 32>(x);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  if (kWarps <= 8) {
    T result = scratch[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) result = Combine::of(result, scratch[warp]);
    return result;
  }
  const int lane = threadIdx.x % 32;
  return reduce_lanes<Combine, 32>(lane < kWarps ? scratch[lane] : Combine::template identity<T>());
}

/// Reduces over threadIdx.y for each threadIdx.x; every thread gets its column's result. `scratch`
/// holds kX * kY values; it may be reused only after a barrier.
template <class Combine, int kX, int kY, class T>
SINTER_DEVICE T reduce_column(T x, T* scratch) {
  scratch[threadIdx.y * kX + threadIdx.x] = x;
  __syncthreads();
  T result = scratch[threadIdx.x];
#pragma unroll
  for (int y = 1; y < kY; ++y) result = Combine::of(result, scratch[y * kX + threadIdx.x]);
  return result;
}

/// reduce_column() for N columns of each thread, in place. `scratch` holds kX * kY * N values; it
/// may be reused only after a barrier.
template <class Combine, int kX, int kY, class T, int N>
SINTER_DEVICE void reduce_columns(T (&x)[N], T* scratch) {
  constexpr bool kShuffles = kX < 32 && kX * kY % 32 == 0;  // if one warp holds several of a
                                                            // column's threads
  constexpr int kRows = kShuffles ? kX * kY / 32 : kY;
  constexpr int kColumns = kX * N;
  const int thread = threadIdx.y * kX + threadIdx.x;
  if (kShuffles) {
#pragma unroll
    for (int mask = kX; mask < 32; mask *= 2)
#pragma unroll
      for (int j = 0; j < N; ++j) x[j] = Combine::of(x[j], exchange(x[j], mask));
    if (kRows == 1) return;
  }
  const int row = kShuffles ? thread / 32 : threadIdx.y;
  if (!kShuffles || thread % 32 < kX) {
#pragma unroll
    for (int j = 0; j < N; ++j) scratch[(row * N + j) * kX + threadIdx.x] = x[j];
  }
  __syncthreads();
  for (int column = thread; column < kColumns; column += kX * kY) {
    T result = scratch[column];
#pragma unroll
    for (int y = 1; y < kRows; ++y) result = Combine::of(result, scratch[y * kColumns + column]);
    scratch[column] = result;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < N; ++j) x[j] = scratch[j * kX + threadIdx.x];
}
