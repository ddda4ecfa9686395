// SPDX-License-Identifier: Apache-2.0
// Transposes tiles of elements in shared memory.
#pragma once

#include "vector.cuh"

/// kX x kY elements (powers of two), written in runs of N along y, read one by one by threads that
/// each have kRun adjacent x. Element (x, y) is in row x. A row's runs are swizzled by x, so that
/// threads adjacent in x have no bank conflicts, in writes or reads.
template <class T, int kX, int kY, int N, int kRun>
struct TurnedTile {
  static constexpr int kRuns = kY / N;
  static constexpr int kBytes = sizeof(T) * N;
  // Bytes of y that the lanes of a warp that read one x access; at least a bank.
  static constexpr int kLanesY = kX / kRun < 32 ? 32 * kRun / kX : 1;
  static constexpr int kWide = kLanesY * sizeof(T) > 4 ? kLanesY * sizeof(T) : 4;
  static constexpr int kStep = kWide > kBytes ? kWide / kBytes : 1;

  Vec<T, N> v[kX * kRuns];

  SINTER_DEVICE static u32 run_of(u32 x, u32 y) {
    return x * kRuns + ((y / N ^ x / kRun * kStep) & (kRuns - 1));
  }
  /// `y` is a multiple of N.
  SINTER_DEVICE void put(u32 x, u32 y, const Vec<T, N>& run) { store(v[run_of(x, y)].v, run); }
  /// Element (x, y), where x is a multiple of kRun; (x + j, y) is at offset j * kY, for j < kRun.
  SINTER_DEVICE const T* at(u32 x, u32 y) const { return &v[run_of(x, y)].v[y % N]; }
  /// kRun adjacent elements along x, at y; x is a multiple of kRun.
  SINTER_DEVICE Vec<T, kRun> run(u32 x, u32 y) const {
    const T* const first = at(x, y);
    Vec<T, kRun> result;
#pragma unroll
    for (int j = 0; j < kRun; ++j) result.v[j] = first[j * kY];
    return result;
  }
};
