// Reductions of rows that several threads of a block have in turns, a few neighbours each time.
#pragma once

#include "cluster.cuh"

/// Behind the values of reduce_runs in shared memory: where their arrival is counted.
template <int kX, int kLanes, int kY, int kBlocks, class T>
SINTER_DEVICE u32 arrivals_of_runs(T* scratch) {
#ifdef __CUDACC__
  return static_cast<u32>(__cvta_generic_to_shared(scratch)) +
         8 * (kX * kY + kX / kLanes * kBlocks);
#else
  return 0;
#endif
}

/// Gets `scratch` ready for reduce_runs in a cluster, in front of cluster_arrive.
template <int kX, int kLanes, int kY, int kBlocks, class T>
SINTER_DEVICE void expect_runs(T* scratch) {
  expect_values<kX / kLanes * kBlocks, T>(arrivals_of_runs<kX, kLanes, kY, kBlocks>(scratch));
}

/// Combines over the threads of a row: a block has kX / kLanes rows, each of which kLanes
/// neighbours of kX threads take, kY times in the block and in each of the cluster's kBlocks
/// blocks; every thread gets its row's result, in one fixed order. `scratch` has room for kX * kY +
/// kX / kLanes * kBlocks values, and in a cluster one more, of 8 bytes, at the same place in every
/// block, and is used once.
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
