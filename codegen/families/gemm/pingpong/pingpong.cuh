// SPDX-License-Identifier: Apache-2.0
// Pingpong GEMM (sm_90a) with persistent blocks: one producer thread issues TMA copies for this and
// the next tiles. Consumers of one or more warpgroups alternate: one runs the epilogue of its tile
// while another runs its mainloop.
#pragma once

#include "tma.cuh"

#ifdef SINTER_WARPGROUPS

/// The passes of a tile's epilogue. A pass has eight rows for each warp and kVectors groups of 32
/// columns; the last group may be partial, and lanes past it store nothing. Four lanes share a row
/// of 32 columns; each loads and stores eight of them. For computation a lane has:
///   rolled: the same columns. Passes are a loop, which keeps code short. A loop cannot index
///   registers, so that a pass's accumulators go through shared memory;
///   spread: the columns of its accumulators, 2 t and 2 t + 1 of each eight. Passes are unrolled;
///   lanes exchange the loaded and stored values in their own type.
template <int kN, bool kSpread>
struct PingpongPasses {
  static constexpr int kVector = 8;
  static constexpr int kVectors = kN % 128 == 0 ? 4 : kN % 96 == 0 ? 3 : (kN + 31) / 32;
  static constexpr int kSums = kSpread ? 0 : 8 * 32 * kVectors;  // per warp
};

/// Shared memory of a block, in bytes, in this order: stages, accumulators of a pass and, with
/// split-K, the sums from the other block.
template <int kM, int kN, int kConsumers, int kGroups, int kStages, int kSums, int kSplitK>
struct PingpongBytes {
  static constexpr int kOfStages = kStages * (kM + kN) * 128,
                       kOfPasses = kConsumers * kGroups * 16 * kSums,
                       kGiven = (kSplitK - 1) * kConsumers * kM * kN * 2,
                       kAll = kOfStages + kOfPasses + kGiven;
};

/// Transposes four items across four lanes: lane t's item u goes to lane u's item t.
template <class T>
SINTER_DEVICE void exchange_items(T (&x)[4]) {
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2) {
    const bool upper = (threadIdx.x & bit) != 0;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      if ((u & bit) != 0) continue;
      T &low = x[u], &high = x[u | bit];
      const T other = exchange(upper ? low : high, bit);
      low = upper ? other : low;
      high = upper ? high : other;
    }
  }
}

/// The same for items of half a word, two in each word. Exchanges a word with the lane 2 away,
/// then halves with the adjacent lane. Lanes of the other half of the quad have their halves
/// swapped.
SINTER_DEVICE void exchange_half_words(u32& first, u32& second) {
  const bool odd = (threadIdx.x & 1) != 0, upper = (threadIdx.x & 2) != 0;
  const u32 kept = upper ? second : first, far = exchange(upper ? first : second, 2);
  const u32 mine = pick_bytes(kept, far, odd ? 0x7632 : 0x5410),
            near = exchange(pick_bytes(kept, far, odd ? 0x5410 : 0x7632), 1);
  const u32 low = odd ? 0x1054 : 0x5410, high = odd ? 0x3276 : 0x7632;
  first = pick_bytes(mine, near, upper ? high : low);
  second = pick_bytes(mine, near, upper ? low : high);
}

/// Holds two elements of 2 or of 4 bytes.
template <bool kWide>
struct PairOf {
  typedef u32 type;
};
template <>
struct PairOf<true> {
  typedef u64 type;
};

/// kConsumers consumers of kGroups warpgroups, each with its own tile; see TmaMainloop. Block b of
/// gridDim.x processes tiles b, b + gridDim.x, ... kMulticast blocks that share columns each take
/// their part of the tiles of b / kMulticast of gridDim.x / kMulticast. kSplitK: two blocks of a
/// cluster share a tile, each with half of k. Each runs the epilogue of half the rows (the first or
/// last eight of each warp's sixteen), whose other sums it receives.
template <class A, class B, int kM, int kN, int kConsumers, int kGroups, int kStages,
          bool kRowsAreK, int kRank, bool kSpread, int kParts = 1, int kWindows = 0,
          int kPromoted = 0, int kMulticast = 1, bool kScaled = false, int kSplitK = 1>
struct PingpongTile
    : TmaMainloop<A, B, kM, kN, kGroups, kStages, kRowsAreK, kRank,
                  PingpongBytes<kM, kN, kConsumers, kGroups, kStages,
                                PingpongPasses<kN / kParts, kSpread>::kSums, kSplitK>::kAll,
                  kParts, kWindows, kPromoted, kMulticast, kScaled, kSplitK> {
  typedef PingpongPasses<kN / kParts, kSpread> Passes;
  typedef PingpongBytes<kM, kN, kConsumers, kGroups, kStages, Passes::kSums, kSplitK> Bytes;
  typedef TmaMainloop<A, B, kM, kN, kGroups, kStages, kRowsAreK, kRank, Bytes::kAll, kParts,
                      kWindows, kPromoted, kMulticast, kScaled, kSplitK>
      Stages;
  typedef typename Stages::Sum Sum;
  typedef typename Stages::Operands Operands;
  typedef typename Stages::Accumulators Accumulators;
  static constexpr int kConsumerThreads = 128 * kGroups, kWorkers = kConsumerThreads * kConsumers,
                       kThreads = kWorkers + 128;
  // Initially all threads have the same number of 65536 registers, in steps of 8; then the 128
  // producer threads release theirs to the consumers.
  static constexpr int kProducerRegisters = 24,
                       kBlockRegisters = 65536 / kThreads / 8 * 8 * kThreads;
  static constexpr int kConsumerRegisters =
      (kBlockRegisters - 128 * kProducerRegisters) / kWorkers / 8 * 8;
  static_assert(kConsumers <= 2 && kConsumerRegisters <= 256 && kN % (16 * kParts) == 0,
                "registers, barriers, columns");
  static_assert(kSpread || kParts == 1, "what passes through shared memory is one part's");
  static_assert(kSplitK <= 2, "one other block");
  static constexpr int kCluster = kMulticast * kSplitK;
  static constexpr int kSharedBytes = Stages::kSharedBytes + (kSplitK - 1) * kConsumers * 2 * 16;

  SINTER_DEVICE static int team() {
    return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kConsumerThreads, 0);
  }

  /// The tiles of a consumer, in order.
  struct TileScheduler {
    u32 tile, number;  // `number`: index among the block's tiles
    SINTER_DEVICE TileScheduler()
        : tile(first_tile() + static_cast<u32>(team()) * tiles_at_once()),
          number(static_cast<u32>(team())) {}
    SINTER_DEVICE void advance() {
      tile += kConsumers * tiles_at_once();
      number += kConsumers;
    }
  };
  SINTER_DEVICE static u32 first_tile() { return blockIdx.x / kCluster; }
  SINTER_DEVICE static u32 tiles_at_once() { return gridDim.x / kCluster; }

  /// Called first. True for consumer threads. The others copy for all tiles of the block, whose
  /// operands are operands_of(i), and then have no more work. `kProgrammatic`: see fill_first().
  template <bool kProgrammatic, class OperandsOf>
  SINTER_DEVICE static bool multiplies(unsigned char* shared, u32 tiles, OperandsOf operands_of) {
    if (threadIdx.x == kWorkers) {
      for (int i = 0; i < (kSplitK - 1) * kConsumers; ++i) {
        sent_of(shared, i).start(1);
        taken_of(shared, i).start(4 * kGroups);
      }
      Stages::init_barriers(shared);
    }
    if (kCluster > 1) {  // all threads see the mbarriers
      __syncwarp();
      cluster_barrier();
    } else {
      __syncthreads();
    }
    if (team() < kConsumers) {
      set_registers<kConsumerRegisters, true>();
      if (kConsumers > 1 && team() == kConsumers - 1) named_barrier_arrive<kWorkers>(0);
      if (kProgrammatic) grid_dependency_wait();
      return true;
    }
    set_registers<kProducerRegisters, false>();
    if (threadIdx.x == kWorkers) copy<kProgrammatic>(shared, tiles, operands_of);
    end();
    return false;
  }
  /// Called last: other blocks arrive at this block's mbarriers until then.
  SINTER_DEVICE static void end() {
    if (kCluster == 1) return;
    __syncwarp();
    cluster_barrier();
  }

  /// Two warpgroups that share a tile and promote: the second lags some steps behind, so that one
  /// runs the epilogue while the other runs MMAs.
  static constexpr bool kLags = kPromoted > 0 && kConsumers == 1 && kGroups == 2;
  static constexpr int kLag = Stages::kOfWarpgroup > 1 ? 1 : kStages / 2;
  struct Turns {
    bool leads;  // its steps let the second one begin the first tile
    int steps;   // per tile
    SINTER_DEVICE void all_started() const {
      if (kConsumers > 1) named_barrier_arrive<kWorkers>((team() + 1) % kConsumers);
    }
    SINTER_DEVICE void started(int count) const {
      if (kLags && leads && count == minimum(kLag, steps)) named_barrier_arrive<kWorkers>(0);
    }
  };

  /// Runs the mainloop for the current tile.
  SINTER_DEVICE static void multiply(Accumulators& accumulators, unsigned char* shared,
                                     const TileScheduler& turn, const Operands& x) {
    const int steps = Stages::count_steps(x);
    const u32 before = turn.number * static_cast<u32>(steps);
    PipelineState<kStages> at{static_cast<int>(before % kStages), before / kStages % 2};
    if (kConsumers > 1) named_barrier_sync<kWorkers>(team());
    if (kLags && turn.number == 0 && group() == 1) named_barrier_sync<kWorkers>(0);
    const int last = Stages::multiply_stages(accumulators, shared, x, steps, group(), at,
                                             Turns{turn.number == 0 && group() == 0, steps});
    if (steps > 0) Stages::release(shared, last);
    if constexpr (kSplitK > 1) add_others(accumulators, shared, turn.number / kConsumers % 2);
  }

  // All rows of the same columns come first. kHalves: groups of eight of a warp's 16 rows.
  static constexpr int kHalves = 2 / kSplitK, kRows = Stages::kRowTiles * kHalves;
  static constexpr int kPasses =
      kRows * ((Stages::kPart + 32 * Passes::kVectors - 1) / (32 * Passes::kVectors));

  SINTER_DEVICE static int row_of(int pass) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int half = kSplitK > 1 ? static_cast<int>(Stages::part_of_k()) : pass % kHalves;
    return (group() * Stages::kRowTiles + pass % kRows / kHalves) * 64 + warp * 16 + half * 8 +
           lane / 4;
  }
  SINTER_DEVICE static int column_of(int pass, int k) {
    return (pass / kRows * Passes::kVectors + k) * 32 + threadIdx.x % 4 * Passes::kVector;
  }
  /// Stores a pass's accumulators to shared memory, once the warp no longer reads the previous
  /// pass.
  SINTER_DEVICE static void show(const Accumulators& accumulators, unsigned char* shared,
                                 int pass) {
    if (kSpread) return;
    const int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int p = 0; p < kPasses; ++p) {
      if (p != pass) continue;
#pragma unroll
      for (int k = 0; k < Passes::kVectors; ++k)
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const int tile = (p / kRows * Passes::kVectors + k) * 4 + u, half = p % kHalves * 2;
          if (tile >= kOfPart) continue;
          const Sum(&d)[4] = accumulators[p % kRows / kHalves][tile / kTiles][tile % kTiles];
          const Vec<Sum, 2> pair = {{d[half], d[half + 1]}};
          store(slot_of(shared, k, u, lane / 4, lane / 2 % 2) + lane % 2 * 2, pair);
        }
    }
    __syncwarp();
  }
  /// The lane's accumulators of the current pass, for vector k of a part.
  SINTER_DEVICE static void sum(Sum (&x)[Passes::kVector], const Accumulators& accumulators,
                                unsigned char* shared, int pass, int k, int part = 0) {
    if constexpr (kSpread) {
      const int first = (pass / kRows * Passes::kVectors + k) * 4, half = pass % kHalves * 2;
#pragma unroll
      for (int j = 0; j < Passes::kVector; ++j) {
        const int tile = part * kOfPart + (first + j / 2 < kOfPart ? first + j / 2 : 0);
        x[j] = accumulators[pass % kRows / kHalves][tile / kTiles][tile % kTiles][half + j % 2];
      }
    } else {
      const int lane = threadIdx.x % 32;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Vec<Sum, 4> four = load<4>(slot_of(shared, k, lane % 4, lane / 4, half));
#pragma unroll
        for (int j = 0; j < 4; ++j) x[half * 4 + j] = four.v[j];
      }
    }
  }
  /// Converts between the columns that lanes load or store and those with which they compute.
  template <class V>
  SINTER_DEVICE static Vec<V, 8> exchanged(const Vec<V, 8>& x) {
    static_assert(sizeof(V) <= 4, "a pair is two words or less");
    if (!kSpread) return x;
    Vec<V, 8> result;
    if constexpr (sizeof(V) == 1) {
      u32 words[2];
      memcpy(words, &x, sizeof(words));
      exchange_half_words(words[0], words[1]);
      memcpy(&result, words, sizeof(words));
    } else {
      typename PairOf<sizeof(V) == 4>::type pairs[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) memcpy(&pairs[u], &x.v[u * 2], 2 * sizeof(V));
      exchange_items(pairs);
#pragma unroll
      for (int u = 0; u < 4; ++u) memcpy(&result.v[u * 2], &pairs[u], 2 * sizeof(V));
    }
    return result;
  }
  /// exchanged(load<8>(p)) for a vector that all rows share, whose loads rows share too. `p` is at
  /// this lane's columns; all 32 exist.
  template <class V>
  SINTER_DEVICE static Vec<V, 8> load_exchanged(const V* p) {
    if (!kSpread) return load<8>(p);
    Vec<V, 8> result;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const Vec<V, 2> pair = load<2>(p + u * 8 - static_cast<int>(threadIdx.x % 4) * 6);
      result.v[u * 2] = pair.v[0];
      result.v[u * 2 + 1] = pair.v[1];
    }
    return result;
  }

 private:
  static constexpr int kTiles = Stages::kColumns / 8,  // of one MMA
      kOfPart = Stages::kPart / 8;

  /// mbarriers of a consumer: the other block's sums have arrived; it has read those of this
  /// block.
  SINTER_DEVICE static MBarrier& sent_of(unsigned char* shared, int team) {
    return Stages::free_of(shared)[kStages + team];
  }
  SINTER_DEVICE static MBarrier& taken_of(unsigned char* shared, int team) {
    return sent_of(shared, kConsumers + team);
  }
  /// Sends the sums of the other block's rows, and adds those received for this block's rows. They
  /// then are the first two of each four accumulators. `phase`: parity for the tile.
  SINTER_DEVICE static void add_others(Accumulators& accumulators, unsigned char* shared,
                                       u32 phase) {
    constexpr int kFours = Stages::kRowTiles * kN / 16;  // per thread
    const u32 part = Stages::part_of_k(), other = (part ^ 1) * kMulticast + Stages::rank();
    MBarrier &sent = sent_of(shared, team()), &taken = taken_of(shared, team());
    Sum* const sums =
        reinterpret_cast<Sum*>(Stages::body_of(shared) + Bytes::kOfStages + Bytes::kOfPasses) +
        threadIdx.x * 4;
    if (threadIdx.x % kConsumerThreads == 0)
      sent.arrive_and_expect_tx(kFours * 16 * kConsumerThreads);
    taken.wait_for_cluster(phase ^ 1);
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      const Sum(&a)[4] = accumulator(accumulators, f * 2),
            (&b)[4] = accumulator(accumulators, f * 2 + 1);
      const Sum given[4] = {part == 0 ? a[2] : a[0], part == 0 ? a[3] : a[1],
                            part == 0 ? b[2] : b[0], part == 0 ? b[3] : b[1]};
      send_four(sums + f * kWorkers * 4, given, sent, other);
    }
    sent.wait_for_cluster(phase);
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      Sum(&a)[4] = accumulator(accumulators, f * 2), (&b)[4] = accumulator(accumulators, f * 2 + 1);
      const Vec<Sum, 4> got = load<4>(sums + f * kWorkers * 4);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        a[j] = (part == 0 ? a[j] : a[2 + j]) + got.v[j];
        b[j] = (part == 0 ? b[j] : b[2 + j]) + got.v[2 + j];
      }
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) taken.arrive_at(other);
  }
  /// Four accumulators of a thread in eight columns.
  SINTER_DEVICE static auto accumulator(Accumulators& all, int i) -> Sum (&)[4] {
    return all[i / (kN / 8)][i % (kN / 8) / kTiles][i % kTiles];
  }

  /// Slot of four accumulators of row `row`, from column u * 8 + half * 4 of 32; swizzled so that
  /// neither stores nor loads have bank conflicts.
  SINTER_DEVICE static Sum* slot_of(unsigned char* shared, int k, int u, int row, int half) {
    Sum* const mine = reinterpret_cast<Sum*>(Stages::body_of(shared) + Bytes::kOfStages) +
                      threadIdx.x / 32 * Passes::kSums;
    return mine + (k * 8 + row) * 32 + (u ^ row % 4) * 8 + (half ^ row % 2) * 4;
  }

  SINTER_DEVICE static int group() {
    return kGroups == 1 ? 0 : static_cast<int>(threadIdx.x) / 128 % kGroups;
  }

  template <bool kProgrammatic, class OperandsOf>
  SINTER_DEVICE static void copy(unsigned char* shared, u32 tiles, OperandsOf operands_of) {
    PipelineState<kStages> at{0, 1};  // on the first pass all stages are free
    for (u32 tile = first_tile(); tile < tiles; tile += tiles_at_once()) {
      const Operands x = operands_of(tile);
      int done = 0;
      if (tile == first_tile()) {
        done = Stages::template fill_first<kProgrammatic>(shared, x);
        for (int s = 0; s < done; ++s) at = at.next();
      }
      Stages::fill_others(shared, x, done, at);
    }
  }
};

#endif  // SINTER_WARPGROUPS
