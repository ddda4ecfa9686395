// SPDX-License-Identifier: Apache-2.0
// Barriers for warpgroups (sm_90a): the hardware's named barriers, and mbarriers in shared memory,
// at which threads, asynchronous copies and other blocks of a cluster arrive.
#pragma once

#include "mma.cuh"

#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SINTER_WARPGROUPS 1
#endif

#ifdef SINTER_WARPGROUPS

// ---- warpgroups take turns, by named barriers 1 and following
/// Waits until the other warpgroup has arrived for `group`. kThreads: threads of both.
template <int kThreads = 256>
SINTER_DEVICE void named_barrier_sync(int group) {
#ifdef __CUDACC__
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kThreads) : "memory");
#else
  emulator::come_to_barrier(group + 1, kThreads, true);
#endif
}
template <int kThreads = 256>
SINTER_DEVICE void named_barrier_arrive(int group) {
#ifdef __CUDACC__
  asm volatile("bar.arrive %0, %1;" ::"r"(group + 1), "n"(kThreads) : "memory");
#else
  emulator::come_to_barrier(group + 1, kThreads, false);
#endif
}

// ---- barriers in shared memory
/// An mbarrier: its phase bit (0 or 1) flips when `count` threads have arrived.
struct MBarrier {
#ifdef __CUDACC__
  unsigned long long word;
#else
  u32 count, left;
  u32 phase;
  i32 bytes;  // expected less arrived
#endif

  /// Initializes it; by one thread, before a __syncthreads().
  SINTER_DEVICE void start(u32 count_) {
#ifdef __CUDACC__
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(count_)
                 : "memory");
#else
    count = left = count_;
    phase = 0;
    bytes = 0;
#endif
  }
  /// Releases this thread's earlier writes to the threads that wait.
  SINTER_DEVICE void arrive() {
#ifdef __CUDACC__
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
#else
    --left;
    turn_over();
#endif
  }
  /// Arrives at the mbarrier at the same offset in block `rank` of the cluster. For readers, not
  /// writers: the release has block scope. One of cluster scope would be a fence that flushes the
  /// L1.
  SINTER_DEVICE void arrive_at(u32 rank) {
#ifdef __CUDACC__
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(this)),
        "r"(rank)
        : "memory");
#else
    emulator::of_block(this, rank)->arrive();
#endif
  }
  /// Arrives, and makes the phase expect that many bytes of TMA copies.
  SINTER_DEVICE void arrive_and_expect_tx(u32 bytes_) {
#ifdef __CUDACC__
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes_)
        : "memory");
#else
    bytes += static_cast<i32>(bytes_);
    arrive();
#endif
  }
#ifndef __CUDACC__
  void count_bytes(u32 bytes_) {
    bytes -= static_cast<i32>(bytes_);
    turn_over();
  }
  void turn_over() {
    if (left != 0 || bytes != 0) return;
    phase ^= 1;
    left = count;
  }
#endif
  /// Arrives when all earlier cp_async() copies of this thread have completed.
  SINTER_DEVICE void arrive_with_copies() {
#ifdef __CUDACC__
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(this))
                 : "memory");
#else
    cp_async_commit();
    cp_async_wait<0>();
    arrive();
#endif
  }
  /// Returns when the phase of parity `of` has completed; parity 1 returns at once on a new
  /// mbarrier.
  SINTER_DEVICE void wait(u32 of) {
#ifdef __CUDACC__
    asm volatile(
        "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@!p bra AGAIN;\n}" ::"r"(shared_address(this)),
        "r"(of)
        : "memory");
#else
    emulator::wait_until([&] { return phase != of; });
#endif
  }
  /// wait() with cluster scope, for data sent by other blocks of the cluster.
  SINTER_DEVICE void wait_for_cluster(u32 of) {
#ifdef __CUDACC__
    asm volatile(
        "{\n.reg .pred p;\nAGAIN:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
        "@!p bra AGAIN;\n}" ::"r"(shared_address(this)),
        "r"(of)
        : "memory");
#else
    wait(of);
#endif
  }
};
/// Writes `x` to `to` (16-byte aligned) in the shared memory of block `rank` of the cluster. The
/// mbarrier at the offset of `arrivals` in that block counts the bytes.
template <class T>
SINTER_DEVICE void send_four(T* to, const T (&x)[4], MBarrier& arrivals, u32 rank) {
  static_assert(sizeof(T) == 4, "four words");
#ifdef __CUDACC__
  u32 words[4];
  memcpy(words, x, sizeof(words));
  asm volatile(
      "{\n.reg .b32 there, counted;\nmapa.shared::cluster.u32 there, %0, %6;\n"
      "mapa.shared::cluster.u32 counted, %1, %6;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [there], {%2, %3, %4, %5}, "
      "[counted];\n}" ::"r"(shared_address(to)),
      "r"(shared_address(&arrivals)), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]),
      "r"(rank)
      : "memory");
#else
  memcpy(emulator::of_block(to, rank), x, sizeof(x));
  emulator::of_block(&arrivals, rank)->count_bytes(sizeof(x));
#endif
}
/// Stage of a circular buffer and the parity to wait for.
template <int kStages>
struct PipelineState {
  int stage = 0;
  u32 phase = 0;

  SINTER_DEVICE PipelineState next() const {
    return stage + 1 < kStages ? PipelineState{stage + 1, phase} : PipelineState{0, phase ^ 1};
  }
};
/// Makes initialized mbarriers visible to TMA; by the thread that initialized them.
SINTER_DEVICE void fence_barrier_init() {
#ifdef __CUDACC__
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
#endif
}
/// Makes shared memory that this thread has seen visible to the MMAs that it starts.
SINTER_DEVICE void fence_proxy_async() {
#ifdef __CUDACC__
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#endif  // SINTER_WARPGROUPS
