// SPDX-License-Identifier: Apache-2.0
// Thread block clusters (sm_90 and later): barriers, and access to the shared memory of other
// blocks. Also programmatic dependent launch: kernels that start before the preceding one ends.
#pragma once

#include "reduce.cuh"

/// Waits for all threads of the cluster; their earlier writes to shared memory are then visible.
/// Shared memory of a block is freed when the block exits: a block must pass a barrier after the
/// last remote access before it exits.
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

/// Maps `shared`, an address in this block's shared memory, to block `rank` of the cluster.
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

/// The arrive and wait halves of a cluster barrier. Shared memory of other blocks must not be
/// written before all blocks of the cluster have started.
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

/// Waits until the mbarrier at `arrivals` in this block has received all bytes that it expects from
/// the cluster. Used once for each mbarrier.
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

/// Address of the mbarrier, which follows a reduction's values in shared memory.
template <int kWarps, int kBlocks, class T>
SINTER_DEVICE u32 arrivals_of(T* scratch) {
#ifdef __CUDACC__
  return static_cast<u32>(__cvta_generic_to_shared(scratch)) + 8 * (kWarps + kBlocks);
#else
  return 0;
#endif
}

/// Makes the mbarrier at `arrivals` expect kCount values that send_value() sends. All threads call
/// it, before cluster_arrive(). Values of fewer than 4 bytes use no mbarrier.
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

/// Writes `x` to address `to` in the shared memory of block `rank` of the cluster. The mbarrier at
/// `arrivals` of that block counts the bytes.
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

/// Waits once for the values announced by expect_values().
template <class T>
SINTER_DEVICE void wait_for_values(u32 arrivals) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  if constexpr (sizeof(T) >= 4) return wait_for_arrivals(arrivals);
#endif
  cluster_barrier();
}

/// Prepares `scratch` for reduce_cluster(); called before cluster_arrive().
template <int kWarps, int kBlocks, class T>
SINTER_DEVICE void expect_results(T* scratch) {
  expect_values<kBlocks, T>(arrivals_of<kWarps, kBlocks>(scratch));
}

/// Reduces over a cluster of kBlocks blocks with kWarps full warps each, in order of rank; every
/// thread gets the result. Each block sends its value to all others and waits for nothing else: a
/// cluster barrier would also wait for stores to global memory. `scratch` holds kWarps + kBlocks +
/// 1 values of 8 bytes in dynamic shared memory, at the same offset in every block, and is used
/// once.
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

/// Transfers from blocks of a cluster to one receiver, which waits for these bytes only: a cluster
/// barrier would also wait for stores to global memory. `arrived` is an mbarrier in shared memory,
/// at the same offset in every block, used once. One thread of the receiver calls this before
/// cluster_arrive():
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
/// After cluster_wait(): sends two floats to `to` (8-byte aligned) in block `rank`.
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
/// After the last send of this block. The receiver waits until all bytes have arrived; the others
/// may exit.
SINTER_DEVICE void end_sending(u64* arrived, bool receives) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  if (receives) wait_for_arrivals(static_cast<u32>(__cvta_generic_to_shared(arrived)));
#endif
#else
  cluster_barrier();
#endif
}

/// Waits until the preceding kernel has ended and its writes are visible. A kernel with
/// programmatic launch (KernelVariant.programmatic_launch) reads only weights before this.
SINTER_DEVICE void grid_dependency_wait() {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Returns `p` for loads, after grid_dependency_wait(), of data that the preceding kernel may have
/// written. ptxas may hoist read-only loads (ld.global.nc, used for `const __restrict__`
/// parameters) above the wait. It cannot trace this pointer to such a parameter.
template <class T>
SINTER_DEVICE const T* after_grid_wait(const T* p) {
#ifdef __CUDACC__
  asm volatile("" : "+l"(p)::"memory");
#endif
  return p;
}
/// Prefetches the 128-byte line that contains `at` into the L2; asynchronous.
SINTER_DEVICE void fetch_line(const void* at) {
#ifdef __CUDACC__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}
/// Prefetches `bytes` bytes starting at `from` into the L2, by a block of kThreads threads.
template <int kThreads>
SINTER_DEVICE void fetch_lines(const void* from, i32 bytes) {
  for (i32 i = threadIdx.x * 128; i < bytes; i += kThreads * 128)
    fetch_line(static_cast<const unsigned char*>(from) + i);
}
/// Reads memory that the preceding kernel may still write, to use as a hint. A later read loads the
/// value again.
template <class T>
SINTER_DEVICE T old_value(const T* at) {
  return *static_cast<const volatile T*>(at);
}
/// Allows the next kernel to start; it synchronizes by grid_dependency_wait().
SINTER_DEVICE void launch_dependents() {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
