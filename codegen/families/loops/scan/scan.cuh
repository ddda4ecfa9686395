// SPDX-License-Identifier: Apache-2.0
// Scans across a row's threads, in a fixed order: equal inputs give equal bits.
#pragma once

#include "reduce.cuh"

// Shuffles move 32 or 64 bits.
template <class T>
struct Lane {
  typedef T type;
};
template <>
struct Lane<i8> {
  typedef i32 type;
};
template <>
struct Lane<u8> {
  typedef i32 type;
};
template <>
struct Lane<i16> {
  typedef i32 type;
};
template <>
struct Lane<u16> {
  typedef i32 type;
};

/// The value of the lane `distance` below; undefined for lanes without one.
template <class T>
SINTER_DEVICE T lane_below(T x, int distance) {
  typedef typename Lane<T>::type Wide;
  return static_cast<T>(__shfl_up_sync(0xffffffffu, static_cast<Wide>(x), distance));
}
/// The value of lane `lane` of the warp.
template <class T>
SINTER_DEVICE T lane_of(T x, int lane) {
  typedef typename Lane<T>::type Wide;
  return static_cast<T>(__shfl_sync(0xffffffffu, static_cast<Wide>(x), lane));
}
/// The value of the last lane of each group of kLanes.
template <int kLanes, class T>
SINTER_DEVICE T last_lane(T x) {
  return lane_of(x, threadIdx.x % 32 | (kLanes - 1));
}

/// Inclusive scan in groups of kLanes adjacent lanes (a power of two, at most 32).
template <class Combine, int kLanes, class T>
SINTER_DEVICE T scan_group(T x) {
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const T below = lane_below(x, distance);
    if (threadIdx.x % kLanes >= distance) x = Combine::of(below, x);
  }
  return x;
}

// These return the prefix before a thread's elements: `carry`, the same in all threads, combined
// with `x` of all earlier threads. `carry` is updated by `x` of all threads, for the row's next
// part.

/// A row has one thread.
template <class Combine, class T>
SINTER_DEVICE T scan_thread(T x, T& carry) {
  const T before = carry;
  carry = Combine::of(carry, x);
  return before;
}

/// kLanes adjacent lanes share a row; all lanes of the warp take part.
template <class Combine, int kLanes, class T>
SINTER_DEVICE T scan_lanes(T x, T& carry) {
  const T through = scan_group<Combine, kLanes>(x);
  const T below = lane_below(through, 1);
  const T before = threadIdx.x % kLanes == 0 ? carry : Combine::of(carry, below);
  carry = Combine::of(carry, last_lane<kLanes>(through));
  return before;
}

/// A block of kWarps full warps has one row. `scratch` holds kWarps values.
template <class Combine, int kWarps, class T>
SINTER_DEVICE T scan_block(T x, T& carry, T* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const T through = scan_group<Combine, 32>(x);
  __syncthreads();  // the previous part has been read
  if (lane == 31) scratch[warp] = through;
  __syncthreads();
  T before = carry;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) before = carry;
    carry = Combine::of(carry, scratch[w]);
  }
  const T below = lane_below(through, 1);
  return lane == 0 ? before : Combine::of(before, below);
}
