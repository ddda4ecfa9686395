// SPDX-License-Identifier: Apache-2.0
// Exchange of the state between the blocks of a cluster: asynchronous stores, counted by mbarriers.
#pragma once

#include "cluster.cuh"
#include "mma.cuh"

/// Initializes an mbarrier in shared memory; by one thread of the block.
SINTER_DEVICE void begin_arrivals(unsigned char* barrier) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], 1;\n"
      "fence.mbarrier_init.release.cluster;" ::"r"(shared_address(barrier))
      : "memory");
#endif
}
/// Announces the bytes of the current phase; by one thread of the block.
SINTER_DEVICE void expect_arrivals(unsigned char* barrier, i32 bytes) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
#endif
}
SINTER_DEVICE void wait_for_phase(unsigned char* barrier, u32 parity) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  u32 done = 0;
  while (done == 0)
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
#endif
#else
  cluster_barrier();
#endif
}
/// Sends kWords words of four bytes to address `to` in the shared memory of block `rank`.
template <int kWords>
SINTER_DEVICE void send_state(unsigned char* to, const u32 (&words)[kWords], unsigned char* barrier,
                              u32 rank) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  u32 there, counted;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(to)), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(counted)
      : "r"(shared_address(barrier)), "r"(rank));
  if constexpr (kWords == 4)
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(there),
        "r"(words[0]), "r"(words[1]), "r"(words[kWords - 2]), "r"(words[kWords - 1]), "r"(counted)
        : "memory");
  else
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
            there),
        "r"(words[0]), "r"(words[1]), "r"(counted)
        : "memory");
#endif
#else
  u32* const there = reinterpret_cast<u32*>(of_block(to, rank));
#pragma unroll
  for (int i = 0; i < kWords; ++i) there[i] = words[i];
#endif
}
