// Blocks that run side by side on neighbouring multiprocessors and read each other's shared memory
// (sm_90 and later), and kernels that start before the one in front of them has ended.
#pragma once

#include "scalar.cuh"

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
