// Blocks that run side by side on neighbouring multiprocessors and read each other's shared memory
// (sm_90 and later), and kernels that start before the one in front of them has ended.
#pragma once

#include "reduce.cuh"

/// Waits for all threads of all blocks of the cluster; what they wrote to shared memory before is
/// then visible. As remote memory dies with its block, a block may end only behind a barrier that
/// comes after the last access to it.
SINTER_DEVICE void cluster_barrier() {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
#endif
#else
  emulator::wait(emulator::State::kAtClusterBarrier);
#endif
}

/// `shared`, an address in this block's shared memory, in that of block `rank` of the cluster.
template <class T>
SINTER_DEVICE T* of_block(T* shared, u32 rank) {
#ifdef __CUDACC__
  T* remote = shared;
#if __CUDA_ARCH__ >= 900
  asm("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(shared), "r"(rank));
#endif
  return remote;
#else
  return emulator::of_block(shared, rank);
#endif
}

/// Combines over the kBlocks blocks, of kWarps full warps each, of a cluster, in the order of their
/// ranks; every thread gets the result. `scratch` holds kWarps + 1 values of dynamic shared memory,
/// at the same place in every block, and is not used again.
template <class Combine, int kWarps, int kBlocks, class T>
SINTER_DEVICE T reduce_cluster(T x, T* scratch) {
  x = reduce_block<Combine, kWarps>(x, scratch);
  if (threadIdx.x == 0) scratch[kWarps] = x;
  cluster_barrier();
  T result = *of_block(scratch + kWarps, 0);
#pragma unroll
  for (int rank = 1; rank < kBlocks; ++rank)
    result = Combine::of(result, *of_block(scratch + kWarps, rank));
  return result;
}

/// Waits until the kernel in front has ended and its memory is visible. A kernel that is launched
/// early (KernelVariant.overlaps) touches nothing but weights before.
SINTER_DEVICE void wait_for_previous_kernel() {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// From now on the next kernel may be launched, if it waits itself.
SINTER_DEVICE void allow_next_kernel() {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
