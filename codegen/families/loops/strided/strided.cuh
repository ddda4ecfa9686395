// SPDX-License-Identifier: Apache-2.0
// Reductions of rows whose threads are not contiguous in a block but repeat with a stride.
#pragma once

#include "cluster.cuh"

/// Address of the mbarrier, which follows reduce_runs()'s values in shared memory.
template <int kX, int kLanes, int kY, int kBlocks, class T>
SINTER_DEVICE u32 arrivals_of_runs(T* scratch) {
#ifdef __CUDACC__
  return static_cast<u32>(__cvta_generic_to_shared(scratch)) +
         8 * (kX * kY + kX / kLanes * kBlocks);
#else
  return 0;
#endif
}

/// Prepares `scratch` for reduce_runs() in a cluster; called before cluster_arrive().
template <int kX, int kLanes, int kY, int kBlocks, class T>
SINTER_DEVICE void expect_runs(T* scratch) {
  expect_values<kX / kLanes * kBlocks, T>(arrivals_of_runs<kX, kLanes, kY, kBlocks>(scratch));
}

/// Reduces over the threads of a row. A block has kX / kLanes rows; each has kLanes neighbours of
/// kX threads, kY times in the block, in each of the cluster's kBlocks blocks. Every thread gets
/// its row's result, in a fixed order. `scratch` holds kX * kY + kX / kLanes * kBlocks values of 8
/// bytes, in a cluster one more, at the same offset in every block; used once.
template <class Combine, int kX, int kLanes, int kY, int kBlocks, class T>
SINTER_DEVICE T reduce_runs(T x, T* scratch, u32 rank) {
  constexpr int kRows = kX / kLanes, kEach = kLanes * kY, kWarps = kX * kY / 32;
  T* const results = scratch + kX * kY;
  scratch[threadIdx.x] = x;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  for (int row = threadIdx.x / 32; row < kRows; row += kWarps) {
    T sum = Combine::template identity<T>();
#pragma unroll
    for (int i = lane; i < kEach; i += 32)
      sum = Combine::of(sum, scratch[i / kLanes * kX + row * kLanes + i % kLanes]);
    sum = reduce_lanes<Combine, 32>(sum);
    if (lane >= kBlocks) continue;
    T* const result = results + row * kBlocks + rank;
    if (kBlocks > 1)
      send_value(result, sum, arrivals_of_runs<kX, kLanes, kY, kBlocks>(scratch), lane);
    else
      *result = sum;
  }
  if (kBlocks > 1)
    wait_for_values<T>(arrivals_of_runs<kX, kLanes, kY, kBlocks>(scratch));
  else
    __syncthreads();
  const T* const own = results + threadIdx.x % kX / kLanes * kBlocks;
  T result = own[0];
#pragma unroll
  for (int block = 1; block < kBlocks; ++block) result = Combine::of(result, own[block]);
  return result;
}
