// SPDX-License-Identifier: Apache-2.0
// The memory through which ranks meet. Each rank has an area, which all ranks write; a flag or a
// packet there carries the number of the meeting, so that nothing need be cleared. Of two meetings
// that follow each other, each uses one of two buffers: a rank that begins one has got what the
// others sent for the one before, which they did behind their reads of the one before that.
#pragma once

#include "vector.cuh"

// As in runtime/plan/ranks/peer_memory.h, which tests compare by use.
constexpr u32 kMostPeers = 16, kPeerBlocks = 32, kSlotBytes = 32 << 10, kPackets = 64 << 10;

/// In each rank's own memory.
struct Peers {
  u32 rank, ranks;
  u32 number, arrived;  // meetings of packets; blocks that have begun the current one
  u32 failed;           // a wait was given up: all others are, too
  u32 unused;
  u64 patience;            // of a wait, in nanoseconds
  u64* report;             // host memory: (meeting << 32) + the rank waited for + 1
  u8* area[kMostPeers];    // of each rank, as this one reaches it
  u32 turns[kPeerBlocks];  // of each block, in exchanges
};

// Parts of an area: flags [from][block]; slots [buffer][from][block]; packets [buffer][from].
SINTER_DEVICE u32* peer_flag(u8* area, u32 from, u32 block) {
  return reinterpret_cast<u32*>(area) + from * kPeerBlocks + block;
}
SINTER_DEVICE u8* peer_slot(u8* area, u32 ranks, u32 buffer, u32 from, u32 block) {
  return area + kMostPeers * kPeerBlocks * sizeof(u32) +
         (u64(buffer * ranks + from) * kPeerBlocks + block) * kSlotBytes;
}
SINTER_DEVICE u64* peer_packets(u8* area, u32 ranks, u32 buffer, u32 from) {
  return reinterpret_cast<u64*>(peer_slot(area, ranks, 2, 0, 0)) +
         u64(buffer * ranks + from) * kPackets;
}

SINTER_DEVICE u64 nanoseconds() {
#ifdef __CUDACC__
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return emulator::nanoseconds();
#endif
}
SINTER_DEVICE u32 load_acquire(const u32* p) {
#ifdef __CUDACC__
  u32 value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
#else
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
#endif
}
SINTER_DEVICE void store_release(u32* p, u32 value) {
#ifdef __CUDACC__
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
#else
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
#endif
}
SINTER_DEVICE u32 load_relaxed(const u32* p) {
#ifdef __CUDACC__
  u32 value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
#else
  return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}
SINTER_DEVICE void store_relaxed(u32* p, u32 value) {
#ifdef __CUDACC__
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
#else
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
#endif
}
SINTER_DEVICE void store_relaxed(u64* p, u64 value) {
#ifdef __CUDACC__
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
#else
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
#endif
}

/// Waits until `has_come()`, which what rank `from` does for meeting `meeting` sees to. False if
/// that took too long, here or in another wait: the run has failed then.
template <class Test>
SINTER_DEVICE bool await_peer(Peers* peers, u32 from, u32 meeting, const Test& has_come) {
  u64 end = 0;
  for (u32 looks = 1; !has_come(); ++looks) {
#ifndef __CUDACC__
    emulator::wait(emulator::State::kReady);
#endif
    if (looks % 512 != 0) continue;
    if (load_relaxed(&peers->failed) != 0) return false;
    const u64 now = nanoseconds();
    if (end == 0) end = now + peers->patience;
    if (now < end) continue;
    store_relaxed(peers->report, u64(meeting) << 32 | (from + 1));
    store_relaxed(&peers->failed, 1);
    return false;
  }
  return true;
}
