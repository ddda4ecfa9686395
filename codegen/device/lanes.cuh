// SPDX-License-Identifier: Apache-2.0
// What lanes of a warp tell each other by value.
#pragma once

#include "reduce.cuh"

/// The lanes that have the same value.
SINTER_DEVICE u32 lanes_alike(u32 x) { return __match_any_sync(0xffffffffu, x); }
SINTER_DEVICE int lowest_lane(u32 lanes) {
  return 31 - __clz(static_cast<int>(lanes & (0u - lanes)));
}

/// The value of another lane.
template <class T>
SINTER_DEVICE T from_lane(T x, int lane) {
  if constexpr (sizeof(T) < 4)
    return static_cast<T>(__shfl_sync(0xffffffffu, static_cast<int>(x), lane));
  else
    return __shfl_sync(0xffffffffu, x, lane);
}

/// The greatest and the least of a warp's values.
SINTER_DEVICE u32 greatest_of_lanes(u32 x) {
#ifdef __CUDACC__
  return __reduce_max_sync(0xffffffffu, x);
#else
  return reduce_lanes<Max, 32>(x);
#endif
}
SINTER_DEVICE u32 least_of_lanes(u32 x) {
#ifdef __CUDACC__
  return __reduce_min_sync(0xffffffffu, x);
#else
  return reduce_lanes<Min, 32>(x);
#endif
}

/// Sums of a block's values up to each thread's own. `scratch`: one for each warp, free at a
/// barrier before and after.
SINTER_DEVICE u32 running_sum(u32 x, u32* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const u32 before = __shfl_up_sync(0xffffffffu, x, distance);
    if (lane >= distance) x += before;
  }
  __syncthreads();
  if (lane == 31) scratch[warp] = x;
  __syncthreads();
  for (int w = 0; w < warp; ++w) x += scratch[w];
  return x;
}
