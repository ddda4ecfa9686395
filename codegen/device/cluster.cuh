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

/// The two halves of a barrier that says that all blocks of the cluster run: before they do,
/// nothing is written to their shared memory.
SINTER_DEVICE void cluster_arrive() {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
SINTER_DEVICE void cluster_wait() {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
#else
  emulator::wait(emulator::State::kAtClusterBarrier);
#endif
}

/// Waits until all bytes have come that the barrier at `arrivals` in this block's shared memory
/// expects of the cluster's blocks. Once for each barrier.
SINTER_DEVICE void wait_for_arrivals(u32 arrivals) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  u32 done = 0;
  while (done == 0)
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(arrivals)
        : "memory");
#endif
}

/// Behind a reduction's values in shared memory: where their arrival is counted.
template <int kWarps, int kBlocks, class T>
SINTER_DEVICE u32 arrivals_of(T* scratch) {
#ifdef __CUDACC__
  return static_cast<u32>(__cvta_generic_to_shared(scratch)) + 8 * (kWarps + kBlocks);
#else
  return 0;
#endif
}

/// The barrier at `arrivals` expects kCount values from the cluster's blocks, sent by send_value;
/// by all threads, in front of cluster_arrive. Values of fewer than 4 bytes come without one.
template <int kCount, class T>
SINTER_DEVICE void expect_values(u32 arrivals) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  if (threadIdx.x != 0 || sizeof(T) < 4) return;
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], 1;\n"
      "fence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrivals),
      "n"(kCount * sizeof(T))
      : "memory");
#endif
}

/// Writes `x` to `to`, an address in this block's shared memory, in that of block `rank` of the
/// cluster, whose barrier at `arrivals` counts it.
template <class T>
SINTER_DEVICE void send_value(T* to, T x, u32 arrivals, u32 rank) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  if constexpr (sizeof(T) >= 4) {
    u32 there, counted;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there)
        : "r"(static_cast<u32>(__cvta_generic_to_shared(to))), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counted) : "r"(arrivals), "r"(rank));
    if constexpr (sizeof(T) == 4) {
      u32 bits;
      memcpy(&bits, &x, 4);
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there),
          "r"(bits), "r"(counted)
          : "memory");
    } else {
      u64 bits;
      memcpy(&bits, &x, 8);
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(there),
          "l"(bits), "r"(counted)
          : "memory");
    }
    return;
  }
#endif
  *of_block(to, rank) = x;
}

/// Waits for the values that expect_values was told of, once.
template <class T>
SINTER_DEVICE void wait_for_values(u32 arrivals) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  if constexpr (sizeof(T) >= 4) return wait_for_arrivals(arrivals);
#endif
  cluster_barrier();
}

/// Gets `scratch` ready for reduce_cluster, in front of cluster_arrive.
template <int kWarps, int kBlocks, class T>
SINTER_DEVICE void expect_results(T* scratch) {
  expect_values<kBlocks, T>(arrivals_of<kWarps, kBlocks>(scratch));
}

/// Combines over the kBlocks blocks, of kWarps full warps each, of a cluster, in the order of their
/// ranks; every thread gets the result. Each block sends its own to all, who wait for nothing else:
/// a barrier would wait for stores to memory too. `scratch` has room for kWarps + kBlocks + 1
/// values of 8 bytes in dynamic shared memory, at the same place in every block, and is used once.
template <class Combine, int kWarps, int kBlocks, class T>
SINTER_DEVICE T reduce_cluster(T x, T* scratch, u32 rank) {
  x = reduce_block<Combine, kWarps>(x, scratch);
  T* const results = scratch + kWarps;
  const u32 arrivals = arrivals_of<kWarps, kBlocks>(scratch);
  if (threadIdx.x < kBlocks) send_value(results + rank, x, arrivals, threadIdx.x);
  wait_for_values<T>(arrivals);
  T result = results[0];
#pragma unroll
  for (int block = 1; block < kBlocks; ++block) result = Combine::of(result, results[block]);
  return result;
}

/// What blocks of a cluster send to one of them, which waits for their bytes and for nothing else:
/// a barrier would wait for stores to memory too. `arrived` is 8 bytes of shared memory, at the
/// same place in every block, and is used once. In front of cluster_arrive(), by one thread of the
/// block that receives:
SINTER_DEVICE void expect_bytes(u64* arrived, i32 bytes) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], 1;\n"
      "fence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
          static_cast<u32>(__cvta_generic_to_shared(arrived))),
      "r"(bytes)
      : "memory");
#endif
}
/// Behind cluster_wait(): two values to `to`, a multiple of 8 bytes, of block `rank`.
SINTER_DEVICE void send_pair(float* to, float low, float high, u64* arrived, u32 rank) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  u32 there, counted;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"(static_cast<u32>(__cvta_generic_to_shared(to))), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(counted)
      : "r"(static_cast<u32>(__cvta_generic_to_shared(arrived))), "r"(rank));
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
          there),
      "r"(__float_as_int(low)), "r"(__float_as_int(high)), "r"(counted)
      : "memory");
#endif
#else
  float* const there = of_block(to, rank);
  there[0] = low;
  there[1] = high;
#endif
}
/// Behind all that this block sends. The one that `receives` waits until everything has arrived;
/// the others may end.
SINTER_DEVICE void end_sending(u64* arrived, bool receives) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  if (receives) wait_for_arrivals(static_cast<u32>(__cvta_generic_to_shared(arrived)));
#endif
#else
  cluster_barrier();
#endif
}

/// Waits until the kernel in front has ended and its memory is visible. A kernel that is launched
/// early (KernelVariant.programmatic_launch) touches nothing but weights before.
SINTER_DEVICE void grid_dependency_wait() {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// `p`, for loads behind grid_dependency_wait of what the kernel in front may have written. The
/// assembler may move loads of memory that is constant within a kernel (ld.global.nc, which
/// `const __restrict__` parameters get) in front of the wait; it knows nothing of this pointer's.
template <class T>
SINTER_DEVICE const T* after_grid_wait(const T* p) {
#ifdef __CUDACC__
  asm volatile("" : "+l"(p)::"memory");
#endif
  return p;
}
/// Has the L2 fetch the line of 128 bytes that `at` is in; nothing waits for it.
SINTER_DEVICE void fetch_line(const void* at) {
#ifdef __CUDACC__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}
/// The same for `bytes` from `from` on, by a block of kThreads.
template <int kThreads>
SINTER_DEVICE void fetch_lines(const void* from, i32 bytes) {
  for (i32 i = threadIdx.x * 128; i < bytes; i += kThreads * 128)
    fetch_line(static_cast<const unsigned char*>(from) + i);
}
/// What is in memory now, which a kernel in front may be about to change: a hint. What is read
/// there later is read anew.
template <class T>
SINTER_DEVICE T old_value(const T* at) {
  return *static_cast<const volatile T*>(at);
}
/// From now on the next kernel may be launched, if it waits itself.
SINTER_DEVICE void launch_dependents() {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
