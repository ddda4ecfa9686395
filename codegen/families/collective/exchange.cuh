// SPDX-License-Identifier: Apache-2.0
// Collectives of any size: a block sends pieces to its like in all ranks, writes a flag behind them
// and waits for theirs. Blocks of one number wait for each other, and for no others.
#pragma once

#include "peers.cuh"
#include "reduce.cuh"

/// Operand [a, b, c, d, e], result [a, f, c, g, e] (runtime/operators/collective).
struct ExchangeSizes {
  i64 a, b, c, d, e, f, g;
};
// As CollectiveKind there.
constexpr int kReduce = 0, kGather = 1, kScatter = 2, kSplitFirst = 3, kSplitLast = 4;

/// A block's turns.
template <class T, int kRanks>
class Turns {
 public:
  SINTER_DEVICE explicit Turns(Peers* peers, u32* given_up)
      : peers_(peers), given_up_(given_up), turn_(peers->turns[blockIdx.x]) {
    if (threadIdx.x == 0) *given_up = 0;
  }
  /// Begins a turn: what follows may be sent.
  SINTER_DEVICE void begin() { ++turn_; }
  SINTER_DEVICE T* to(u32 rank) const { return slot(rank, peers_->rank); }
  /// Ends the sending; true when all ranks' pieces have come. All threads of the block get the
  /// same.
  SINTER_DEVICE bool meet() {
    __syncthreads();
    const u32 r = threadIdx.x, block = blockIdx.x;
    if (r < kRanks) {
      store_release(peer_flag(peers_->area[r], peers_->rank, block), turn_);
      const u32* flag = peer_flag(peers_->area[peers_->rank], r, block);
      const u32 turn = turn_;
      if (!await_peer(peers_, r, turn,
                      [&] { return static_cast<i32>(load_acquire(flag) - turn) >= 0; }))
        *given_up_ = 1;
    }
    __syncthreads();
    return *given_up_ == 0;
  }
  SINTER_DEVICE const T* from(u32 rank) const { return slot(peers_->rank, rank); }
  /// Behind the last turn.
  SINTER_DEVICE void end() const {
    __syncthreads();
    if (threadIdx.x == 0) peers_->turns[blockIdx.x] = turn_;
  }

 private:
  SINTER_DEVICE T* slot(u32 of, u32 from) const {
    return reinterpret_cast<T*>(peer_slot(peers_->area[of], kRanks, turn_ % 2, from, blockIdx.x));
  }
  Peers* peers_;
  u32* given_up_;
  u32 turn_;
};

/// Elements that a block sends at once, of messages of `count`: all blocks have some. V divides it.
template <class T, int V>
SINTER_DEVICE i64 piece_of(i64 count) {
  constexpr i64 kMost = kSlotBytes / sizeof(T);
  const i64 even = (count / V + gridDim.x - 1) / gridDim.x * V;
  return even < kMost ? even : kMost;
}

/// Elements that rank `me` sends to `r`, by their number, and where those from `r` go.
template <int kKind, int kRanks>
struct Places {
  ExchangeSizes s;
  u32 me;
  i64 inner, row;  // of gathers and scatters, and elements that stay together

  SINTER_DEVICE Places(const ExchangeSizes& sizes, u32 rank) : s(sizes), me(rank) {
    inner = s.c * s.d * s.e;
    row = (kKind == kSplitFirst ? s.d : s.g) * s.e;
  }
  SINTER_DEVICE i64 count() const {
    if (kKind == kGather) return s.a * s.b * inner;
    if (kKind == kScatter) return s.a * s.f * inner;
    return s.a * (kKind == kSplitFirst ? s.f : s.b) * s.c * row;
  }
  SINTER_DEVICE i64 source(u32 r, i64 i) const {
    if (kKind == kGather) return i;
    if (kKind == kScatter) {
      const i64 part = s.f * inner;
      return i / part * s.b * inner + r * part + i % part;
    }
    return place(i, s.b, kKind == kSplitFirst ? r * s.f : 0, s.d * s.e,
                 kKind == kSplitFirst ? 0 : r * row);
  }
  SINTER_DEVICE i64 target(u32 r, i64 i) const {
    if (kKind == kGather) {
      const i64 part = s.b * inner;
      return i / part * part * kRanks + r * part + i % part;
    }
    if (kKind == kScatter) return i;
    return place(i, s.f, kKind == kSplitFirst ? 0 : r * s.b, s.g * s.e,
                 kKind == kSplitFirst ? r * row : 0);
  }

 private:
  /// Of [a][rows of the message][c][row] in [a][rows][c][width].
  SINTER_DEVICE i64 place(i64 i, i64 rows, i64 first, i64 width, i64 column) const {
    const i64 own = kKind == kSplitFirst ? s.f : s.b;
    const i64 k = i / row, outer = k / s.c;
    return ((outer / own * rows + first + outer % own) * s.c + k % s.c) * width + column + i % row;
  }
};

/// Element-wise combination of all ranks' pieces, in the order of ranks, rounded once.
template <class Combine, int V, class T, int kRanks>
SINTER_DEVICE Vec<T, V> combine_pieces(const Turns<T, kRanks>& turns, i64 i) {
  decltype(widen(T())) sums[V];
#pragma unroll
  for (int r = 0; r < kRanks; ++r) {
    const Vec<T, V> next = load<V>(turns.from(r) + i);
#pragma unroll
    for (int j = 0; j < V; ++j)
      sums[j] = r == 0 ? widen(next.v[j]) : Combine::of(sums[j], widen(next.v[j]));
  }
  Vec<T, V> result;
#pragma unroll
  for (int j = 0; j < V; ++j) result.v[j] = narrow<T>(sums[j]);
  return result;
}

/// Each rank combines a part of all values and sends it to the others. V divides the count.
template <class Combine, class T, int V, int kRanks, int kThreads>
SINTER_DEVICE void reduce_in_parts(const T* x, T* y, i64 count, Peers* peers) {
  __shared__ u32 given_up;
  const i64 part = (count / V + kRanks - 1) / kRanks * V, most = piece_of<T, V>(part);
  const auto end = [&](u32 rank) { return count < (rank + 1) * part ? count : (rank + 1) * part; };
  Turns<T, kRanks> turns(peers, &given_up);
  for (i64 piece = blockIdx.x * most; piece < part; piece += gridDim.x * most) {
    const i64 some = part - piece < most ? part - piece : most;
    turns.begin();
    for (u32 r = 0; r < kRanks; ++r)
      for (i64 i = threadIdx.x * V; i < some; i += kThreads * V) {
        const i64 at = r * part + piece + i;
        if (at < end(r)) store(turns.to(r) + i, load<V>(x + at));
      }
    if (!turns.meet()) return;
    const u32 me = peers->rank;
    const Turns<T, kRanks> got = turns;
    turns.begin();
    for (i64 i = threadIdx.x * V; i < some; i += kThreads * V) {
      if (me * part + piece + i >= end(me)) continue;
      const Vec<T, V> sum = combine_pieces<Combine, V>(got, i);
      for (u32 r = 0; r < kRanks; ++r) store(turns.to(r) + i, sum);
    }
    if (!turns.meet()) return;
    for (u32 r = 0; r < kRanks; ++r)
      for (i64 i = threadIdx.x * V; i < some; i += kThreads * V) {
        const i64 at = r * part + piece + i;
        if (at < end(r)) store(y + at, load<V>(turns.from(r) + i));
      }
  }
  turns.end();
}

/// Of V neighbouring elements each source and target is one vector.
template <int kKind, class Combine, class T, int V, int kRanks, int kThreads>
SINTER_DEVICE void exchange_values(const T* x, T* y, const ExchangeSizes& sizes, Peers* peers) {
  if constexpr (kKind == kReduce) {
    reduce_in_parts<Combine, T, V, kRanks, kThreads>(
        x, y, sizes.a * sizes.b * sizes.c * sizes.d * sizes.e, peers);
  } else {
    __shared__ u32 given_up;
    const Places<kKind, kRanks> places(sizes, peers->rank);
    const i64 count = places.count(), most = piece_of<T, V>(count);
    Turns<T, kRanks> turns(peers, &given_up);
    for (i64 piece = blockIdx.x * most; piece < count; piece += gridDim.x * most) {
      const i64 some = count - piece < most ? count - piece : most;
      turns.begin();
      for (u32 r = 0; r < kRanks; ++r)
        for (i64 i = threadIdx.x * V; i < some; i += kThreads * V)
          store(turns.to(r) + i, load<V>(x + places.source(r, piece + i)));
      if (!turns.meet()) return;
      for (i64 i = threadIdx.x * V; i < some; i += kThreads * V) {
        if constexpr (kKind == kScatter)
          store(y + piece + i, combine_pieces<Combine, V>(turns, i));
        else
          for (u32 r = 0; r < kRanks; ++r)
            store(y + places.target(r, piece + i), load<V>(turns.from(r) + i));
      }
    }
    turns.end();
  }
}
