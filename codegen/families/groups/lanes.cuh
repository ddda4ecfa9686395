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
