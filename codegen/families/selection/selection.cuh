// SPDX-License-Identifier: Apache-2.0
// The numbers of the true flags of a tile, which a block has.
#pragma once

#include "scan.cuh"

/// `flags`: the tile's; `first`: the number of the first. Indices go to y from `at` on, none beyond
/// `count`.
template <int kThreads, int kTile>
SINTER_DEVICE void select_indices(const b8* flags, i64 first, i64 at, i64* y, i64 count) {
  constexpr int kEach = (kTile + kThreads - 1) / kThreads;
  static_assert(kEach <= 16, "a thread's flags are one vector");
  __shared__ u16 chosen[kTile];
  __shared__ i32 totals[kThreads / 32];
  const int begin = threadIdx.x * kEach;
  b8 own[16] = {};
  if (kTile == kThreads * 16) {
    const uint4 all = reinterpret_cast<const uint4*>(flags)[threadIdx.x];
    memcpy(own, &all, 16);
  } else {
    for (int k = 0; k < kEach; ++k)
      if (begin + k < kTile) own[k] = flags[begin + k];
  }
  i32 here = 0;
#pragma unroll
  for (int k = 0; k < kEach; ++k) here += own[k].bits != 0;
  i32 total = 0;
  i32 next = scan_block<Sum, kThreads / 32>(here, total, totals);
#pragma unroll
  for (int k = 0; k < kEach; ++k)
    if (own[k].bits != 0) chosen[next++] = static_cast<u16>(begin + k);
  __syncthreads();
  for (int i = threadIdx.x; i < total; i += kThreads)
    if (at + i >= 0 && at + i < count) y[at + i] = first + chosen[i];
}
