// SPDX-License-Identifier: Apache-2.0
// The sum of all ranks' values, as memory that a kernel reads: a load sends the rank's own elements
// to the others and waits for theirs. They travel as packets of 4 bytes and the meeting's number,
// written at once: no fence and no flag need order them. Every rank's kernel loads all elements,
// each as part of the same vector; to load one again is harmless.
#pragma once

#include "peers.cuh"

SINTER_DEVICE void send_packets(u64* to, u64 first, u64 second) {
#ifdef __CUDACC__
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second)
               : "memory");
#else
  store_relaxed(to, first);
  store_relaxed(to + 1, second);
#endif
}
SINTER_DEVICE u64 packet(const u64* from) {
#ifdef __CUDACC__
  u64 value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_RELAXED);
#endif
}
SINTER_DEVICE void read_packets(const u64* from, u64& first, u64& second) {
#ifdef __CUDACC__
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(from)
               : "memory");
#else
  first = packet(from);
  second = packet(from + 1);
#endif
}

template <class T, int kRanks>
struct Summands {
  const T* own;
  i64 at = 0;  // elements
  Peers* peers;
  u32 number, rank;
  u64* to[kRanks];
  const u64* from[kRanks];

  /// All threads of all blocks make one, once.
  SINTER_DEVICE Summands(const T* x, Peers* of) : own(x), peers(of) {
    number = load_relaxed(&of->number) + 1;
    rank = of->rank;
    const u32 buffer = number % 2;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      to[r] = peer_packets(of->area[r], kRanks, buffer, rank);
      from[r] = peer_packets(of->area[rank], kRanks, buffer, r);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    // All blocks have read the number when the last of them comes here.
    if (atomicAdd(&of->arrived, 1u) + 1 < gridDim.x) return;
    store_relaxed(&of->arrived, 0);
    store_relaxed(&of->number, number);
  }
  SINTER_DEVICE Summands operator+(i64 elements) const {
    Summands moved = *this;
    moved.own += elements;
    moved.at += elements;
    return moved;
  }
  SINTER_DEVICE T operator[](i64 i) const;
};

template <int N, class T, int kRanks>
SINTER_DEVICE Vec<T, N> load(const Summands<T, kRanks>& s) {
  constexpr int kBytes = sizeof(T) * N, kWords = kBytes < 4 ? 1 : kBytes / 4;
  static_assert(kBytes < 4 || kBytes % 4 == 0, "whole words");
  Vec<T, N> value = load<N>(s.own);
  u32 words[kWords] = {};
  memcpy(words, &value, kBytes);
  const i64 first = kBytes < 4 ? s.at : s.at * static_cast<i64>(sizeof(T)) / 4;
  const u64 tag = u64(s.number) << 32;
#pragma unroll
  for (int r = 0; r < kRanks; ++r) {
    if (r == static_cast<int>(s.rank)) continue;
    if constexpr (kWords % 2 == 0) {
#pragma unroll
      for (int w = 0; w < kWords; w += 2)
        send_packets(s.to[r] + first + w, tag | words[w], tag | words[w + 1]);
    } else {
#pragma unroll
      for (int w = 0; w < kWords; ++w) store_relaxed(s.to[r] + first + w, tag | words[w]);
    }
  }
  float sums[N];
#pragma unroll
  for (int r = 0; r < kRanks; ++r) {
    Vec<T, N> next = value;
    if (r != static_cast<int>(s.rank)) {
      const u64* from = s.from[r] + first;
      u64 got[kWords] = {};
      await_peer(s.peers, r, s.number, [&] {
        bool all = true;
        if constexpr (kWords % 2 == 0) {
#pragma unroll
          for (int w = 0; w < kWords; w += 2) read_packets(from + w, got[w], got[w + 1]);
        } else {
#pragma unroll
          for (int w = 0; w < kWords; ++w) got[w] = packet(from + w);
        }
#pragma unroll
        for (int w = 0; w < kWords; ++w) all = all && static_cast<u32>(got[w] >> 32) == s.number;
        return all;
      });
#pragma unroll
      for (int w = 0; w < kWords; ++w) words[w] = static_cast<u32>(got[w]);
      memcpy(&next, words, kBytes);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float element = widen(next.v[j]);
      sums[j] = r == 0 ? element : sums[j] + element;
    }
  }
  if constexpr (N % 2 == 0) {
    return Pack<T>::of(sums);
  } else {
    Vec<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.v[j] = narrow<T>(sums[j]);
    return result;
  }
}

template <class T, int kRanks>
SINTER_DEVICE T Summands<T, kRanks>::operator[](i64 i) const {
  return load<1>(*this + i).v[0];
}

/// As of memory: what is not guarded neither sends nor waits, on any rank.
template <int N, class T, int kRanks>
SINTER_DEVICE Vec<T, N> load_if(bool guard, const Summands<T, kRanks>& s, T fill) {
  return guard ? load<N>(s) : splat<N>(fill);
}
