// SPDX-License-Identifier: Apache-2.0
// Attention of one head: y = softmax(mask(scale * q k')) v for a tile of query rows; scores are
// never stored. Keys and values pass through shared memory in tiles. A warp processes 16 or 32
// rows on tensor cores. It keeps their maxima, sums and results in float32 registers and
// rescales them when the maximum grows (online softmax: Milakov and Gimelshein 2018, Dao et al.
// 2022).
#pragma once

#include "attention_packed.cuh"
#include "attention_rows.cuh"
#include "attention_swapped_rows.cuh"

/// Bytes of keys and values that stay in the L2 until all blocks have read them.
constexpr u32 kCached = 24u << 20;
/// Bytes of one key and its value.
template <class Shape>
constexpr u32 kKeyBytes = (Shape::kHead + Shape::kValueHead) * sizeof(typename Shape::Key);

/// Head and tile of an item under a causal mask. A tile index past the last means that there is no
/// work.
struct CausalItem {
  u32 head, tile;
};
/// True if blocks, which take items round by round (visit_items), get pairs from one head: a long
/// tile and the short tile that complements it. Requires that pairs fill the rounds.
SINTER_DEVICE bool takes_pairs(u32 pairs, u32 items) {
  const u32 turns = (pairs + gridDim.x - 1) / gridDim.x;
  return items > (2 * turns - 1) * gridDim.x && turns * gridDim.x * 8 <= pairs * 9;
}
/// Otherwise: tiles with the most keys first, over as many heads as have their keys and values in
/// the L2 at once, then over the next heads.
template <class Shape>
SINTER_DEVICE CausalItem causal_item(u32 item, u32 tiles, u32 heads, i32 keys) {
  const CausalItem nothing{0, tiles};
  const u32 each = (tiles + 1) / 2;
  if (takes_pairs(heads * each, heads * tiles)) {
    const u32 round = item / gridDim.x, slot = item % gridDim.x;
    const u32 block = round % 2 == 0 ? slot : gridDim.x - 1 - slot;
    const u32 pair = round / 2 * gridDim.x + block, head = pair / each, tile = pair % each;
    const u32 other = tiles - 1 - tile;
    if (head >= heads || (round % 2 != 0 && tile == other)) return nothing;
    return {head, round % 2 == 0 ? other : tile};
  }
  if (item >= heads * tiles) return nothing;
  const u64 bytes = static_cast<u64>(keys) * kKeyBytes<Shape>;
  u32 near = bytes < kCached ? kCached / static_cast<u32>(bytes > 0 ? bytes : 1) : 1;
  near = near < heads ? near : heads;
  const u32 first = item / (near * tiles) * near, rest = item - first * tiles;
  const u32 count = heads - first < near ? heads - first : near;
  return {first + rest % count, tiles - 1 - rest / count};
}

/// The item of a block, in serpentine order over kTurns multiprocessors: every second round is
/// reversed. Earlier items take longer, so that each multiprocessor gets long and short ones.
template <u32 kTurns>
SINTER_DEVICE u32 balanced_item(u32 block, u32 blocks) {
  const u32 turn = block / kTurns, first = turn * kTurns;
  if (turn % 2 == 0) return block;
  const u32 left = blocks - first;
  return first + (left < kTurns ? left : kTurns) - 1 - (block - first);
}

/// End of the keys that any row of the block sees.
template <class Shape>
SINTER_DEVICE i32 end_of_keys(const AttentionProblem<Shape>& p) {
  i32 end = p.keys;
  if constexpr (Shape::kLimited) {  // the warp computes the maximum
    end = 0;
    for (i32 row = threadIdx.x % 32; row < Shape::kRows; row += 32) {
      const i32 of_row = p.end_of_row(p.first_row + row);
      end = of_row > end ? of_row : end;
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      const i32 other = exchange(end, distance);
      end = other > end ? other : end;
    }
  }
  if (!Shape::kCausal) return end;
  const i32 last = p.first_row + Shape::kRows < p.rows ? p.first_row + Shape::kRows : p.rows;
  const i32 seen = last + p.diagonal;
  return seen < end ? (seen > 0 ? seen : 0) : end;
}

/// The first key in the window of any row of the block.
template <class Shape>
SINTER_DEVICE i32 first_of_keys(const AttentionProblem<Shape>& p) {
  i32 least = p.keys;
  for (i32 row = threadIdx.x % 32; row < Shape::kRows; row += 32) {
    const i32 of_row = p.end_of_row(p.first_row + row);
    least = of_row < least ? of_row : least;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const i32 other = exchange(least, distance);
    least = other < least ? other : least;
  }
  return least > Shape::kWindow ? least - Shape::kWindow : 0;
}

/// The first key of the first tile that any row of the block sees.
template <class Shape>
SINTER_DEVICE i32 first_tile_of_keys(const AttentionProblem<Shape>& p) {
  if constexpr (Shape::kWindow == 0) return 0;
  return first_of_keys(p) / Shape::kKeys * Shape::kKeys;
}

/// Prefetches into the L2 the keys and values that this block of a cluster of kSplitK reads: one
/// row a thread, from round kFirst on, at most what the L2 holds for all blocks. The preceding
/// kernel may still change them: only the L2 holds them.
template <class Shape, int kSplitK, int kFirst = 0>
SINTER_DEVICE void fetch_keys(const AttentionProblem<Shape>& p) {
  constexpr int kOfBlock = Shape::kKeys * Shape::kKeyGroups,
                kLine = 128 / static_cast<int>(sizeof(typename Shape::Key));
  const i32 most = static_cast<i32>(kCached / kKeyBytes<Shape> / gridDim.x) * kSplitK,
            all = end_of_keys(p), end = all < most ? all : most;
  const auto fetch = [](const typename Shape::Key* row, int width) {
    for (int i = 0; i < width; i += kLine) fetch_line(row + i);
  };
  for (i32 first = (blockIdx.x % kSplitK + kFirst * kSplitK) * kOfBlock; first < end;
       first += kOfBlock * kSplitK)
    for (i32 key = first + threadIdx.x; key < first + kOfBlock && key < end;
         key += Shape::kThreads * Shape::kKeyGroups) {
      const i32 row = p.row_of_key(key);
      fetch(p.k + row * p.k_stride, Shape::kHead);
      fetch(p.v + row * p.v_stride, Shape::kValueHead);
      if (Shape::kScaled && row % 32 == 0) {  // scales of 32 keys, if adjacent
        fetch_line(p.key_scale + row * p.key_scale_stride);
        fetch_line(p.value_scale + row * p.value_scale_stride);
      }
    }
}

/// Rows of the keys of a tile; the tile begins at a multiple of Shape::kKeys. For a paged cache:
/// the first row of each block in the tile, looked up once for all copies of the tile. If not
/// kKnown, each key is looked up.
template <class Shape>
struct TileBlocks {
  static constexpr int kBlock = Shape::kPaged ? Shape::kBlock : 1, kKeys = Shape::kKeys;
  static constexpr bool kWhole = kKeys % kBlock == 0;  // tile of whole blocks, otherwise part of
                                                       // one
  // Each copy selects among the blocks: at most 4.
  static constexpr bool kKnown =
      Shape::kPaged && (kBlock % kKeys == 0 || (kWhole && kKeys / kBlock <= 4));
  static constexpr int kCount = kKnown && kWhole ? kKeys / kBlock : 1;
  i32 first[kCount] = {};  // of each block, minus the keys of the tile before it

  SINTER_DEVICE void find(const AttentionProblem<Shape>& p, i32 key0) {
    if constexpr (!kKnown) return;
#pragma unroll
    for (int b = 0; b < kCount; ++b) first[b] = p.first_row_at(key0 + b * kBlock) - b * kBlock;
  }
  /// The row of `key` in keys and values; the tile begins at `key0`.
  SINTER_DEVICE i32 row_of(const AttentionProblem<Shape>& p, i32 key, i32 key0) const {
    if constexpr (!kKnown) return p.row_of_key(key);
    const i32 offset = key - key0;
    i32 from = first[0];
#pragma unroll
    for (int b = 1; b < kCount; ++b) from = offset >= b * kBlock ? first[b] : from;
    return p.row_in_cache(from + offset);
  }
};

/// Assigns keys to blocks in rounds; a round is one tile for each key group. Round r, counted from
/// key 0, belongs to block r % kSplitK of the cluster, whatever the rows see. The summation order
/// of a row thus depends only on its own keys.
template <class Shape, int kSplitK>
struct KeyRounds {
  static constexpr i32 kRound = Shape::kKeys * Shape::kKeyGroups;

  /// First key of the first round of block `split` that ends after `first_key`.
  SINTER_DEVICE static i32 first(i32 first_key, int split) {
    const u32 number = static_cast<u32>(first_key) / kRound,
              behind = (static_cast<u32>(split) + kSplitK - number % kSplitK) % kSplitK;
    return static_cast<i32>((number + behind) * kRound);
  }
  SINTER_DEVICE static i32 next(i32 round) { return round + kSplitK * kRound; }
  /// Bit mask of the blocks that have keys before `end`, always including the first.
  SINTER_DEVICE static u32 busy(i32 first_key, i32 end) {
    u32 bits = 1;
#pragma unroll
    for (int split = 1; split < kSplitK; ++split)
      bits |= static_cast<u32>(first(first_key, split) < end) << split;
    return bits;
  }
};

/// attend() finds queries, keys and values in memory.
struct NoPrologue {
  static constexpr bool kMakes = false, kAhead = false;
};
/// attend() computes the queries and the new row itself. `wait()` waits for the preceding step and
/// returns the problem. `make(queries, key, value, wait)`: the block's threads compute the queries
/// (rows of kHead) and a new row of keys and of values. Each thread calls wait() first. The result
/// is the new row's index, -1 if there is none. kCopiesAhead: the preceding step does not change
/// existing rows of keys and values.
template <bool kCopiesAhead, class Wait, class Make>
struct Prologue {
  static constexpr bool kMakes = true, kAhead = kCopiesAhead;
  const Wait& wait;
  const Make& make;
};
template <bool kCopiesAhead, class Wait, class Make>
SINTER_DEVICE Prologue<kCopiesAhead, Wait, Make> prologue_of(const Wait& wait, const Make& make) {
  return {wait, make};
}

/// How a warp lays out its rows in registers.
template <class Shape, bool kSwapped = Shape::kSwapped>
struct RowsOf {
  typedef AttentionRows<Shape> type;
};
template <class Shape>
struct RowsOf<Shape, true> {
  typedef SwappedRows<Shape> type;
};

/// Rows [first_row, first_row + kRows) of one head, by one block of kKeyGroups * kRowWarps
/// warps, or by a cluster of kSplitK such blocks that split the keys. kAhead: pipeline stages,
/// tiles of keys and values in flight, of a key group of one warp; 1 for larger groups.
/// Results of `prologue` follow all else in shared memory (Shape::kPrologueBytes); it also
/// stores the new row to memory. With a prologue, `p` must be valid before the preceding step
/// ends.
template <class Shape, int kSplitK = 1, int kAhead = 1, class Prologue = NoPrologue>
SINTER_DEVICE void attend(AttentionProblem<Shape> p, const Prologue& prologue = Prologue()) {
  typedef typename Shape::T T;
  typedef typename Shape::Key Key;
  typedef typename RowsOf<Shape>::type Rows;
  typedef KeyRounds<Shape, kSplitK> Rounds;
  constexpr int kKeys = Shape::kKeys, kGroups = Shape::kKeyGroups;
  static_assert(kSplitK == 1 || !Shape::kPacked || Shape::kPaged,
                "blocks of a cluster end together");
  static_assert(kSplitK == 1 || kGroups > 1, "blocks hand over where groups do");
  static_assert(kAhead == 1 || Shape::kRowWarps == 1, "a warp waits for its own copies");
  static_assert(!Prologue::kMakes || (kAhead == 1 && Shape::kRowWarps == 1),
                "a warp puts the new row among its own copies");
  if constexpr (Shape::kPacked) {
    if constexpr (Shape::kClearsSpare)
      clear_spare_rows<Shape::kThreads * kGroups, Shape::kGroup>(p, threadIdx.x);
    if (p.first_row >= p.rows) return;
  }
  const int split = kSplitK > 1 ? blockIdx.x % kSplitK : 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % Shape::kRowWarps;
  const int group = threadIdx.x / Shape::kThreads, thread = threadIdx.x % Shape::kThreads;
  // Requests the block table entries of the first tiles together with the rows' limits.
  typedef TileBlocks<Shape> Blocks;
  constexpr bool kAsksEarly = Blocks::kKnown && Shape::kWindow == 0 && !Prologue::kMakes;
  Blocks early[kAhead];
  if constexpr (kAsksEarly) {
    i32 first = Rounds::first(0, split);
#pragma unroll
    for (int stage = 0; stage < kAhead; ++stage, first = Rounds::next(first))
      early[stage].find(p, first + group * kKeys);
  }
  const auto blocks_of_tile = [&](i32 key0) {
    Blocks blocks;
    blocks.find(p, key0);
    return blocks;
  };
  // Block tables have no valid entries for keys that no row sees.
  if constexpr (Shape::kPaged) p.keys = end_of_keys(p);
  SINTER_DYNAMIC_SHARED(shared);
  const auto keys_of = [&](int stage) {
    return reinterpret_cast<Key*>(shared + (group * kAhead + stage) * Shape::kTileBytes);
  };
  const auto values_of = [&](int stage) { return keys_of(stage) + kKeys * Shape::kKeyPitch; };
  const auto key_scales_of = [&](int stage) {
    return reinterpret_cast<float*>(shared + (group * kAhead + stage) * Shape::kTileBytes +
                                    kKeys * Shape::kRowBytes);
  };
  const auto value_scales_of = [&](int stage) { return key_scales_of(stage) + kKeys; };
  // Warps of a group synchronize with each other; a group of one warp needs no barrier.
  const auto barrier = [] {
    if constexpr (Shape::kRowWarps == 1)
      __syncwarp();
    else
      __syncthreads();
  };
  const auto copy_keys = [&](int stage, i32 key0, const Blocks& blocks) {
    const auto row_of = [&](i32 key) { return blocks.row_of(p, key, key0); };
    copy_rows<kKeys, Shape::kHeadColumns, Shape::kKeyPitch, Shape::kVector, Shape::kThreads>(
        keys_of(stage), p.k, p.k_stride, key0, p.keys, thread, row_of);
    if constexpr (Shape::kScaled)
      copy_scales<kKeys, Shape::kThreads>(key_scales_of(stage), p.key_scale, p.key_scale_stride,
                                          key0, p.keys, thread, row_of);
  };
  const auto copy_values = [&](int stage, i32 key0, const Blocks& blocks) {
    const auto row_of = [&](i32 key) { return blocks.row_of(p, key, key0); };
    copy_rows<kKeys, Shape::kValueColumns, Shape::kValuePitch, Shape::kVector, Shape::kThreads>(
        values_of(stage), p.v, p.v_stride, key0, p.keys, thread, row_of);
    if constexpr (Shape::kScaled)
      copy_scales<kKeys, Shape::kThreads>(value_scales_of(stage), p.value_scale,
                                          p.value_scale_stride, key0, p.keys, thread, row_of);
  };

  const i32 first_key = first_tile_of_keys(p);
  i32 round = Rounds::first(first_key, split), key0 = round + group * kKeys;
  const auto copy_first = [&] {
    const Blocks blocks = kAsksEarly ? early[0] : blocks_of_tile(key0);
    copy_keys(0, key0, blocks);
    cp_async_commit();
    copy_values(0, key0, blocks);
    cp_async_commit();
  };

  u64* const arrived = reinterpret_cast<u64*>(shared + Shape::arrived_at(kAhead, kSplitK));
  constexpr bool kKnowsEnd = Shape::kPaged && !Prologue::kMakes;
  u32 busy = (1u << kSplitK) - 1;  // bit mask of blocks
  if constexpr (kSplitK > 1) {
    if constexpr (kKnowsEnd) busy = Rounds::busy(first_key, p.keys);
    const i32 left = p.rows - p.first_row > 0 ? p.rows - p.first_row : 0;
    const i32 rows = left < Shape::kRows ? left : Shape::kRows;
    if (split == 0 && threadIdx.x == 0)
      expect_bytes(arrived, __popc(static_cast<int>(busy)) * rows * (Shape::kValueHead + 2) * 4);
    cluster_arrive();
    // Frees the multiprocessor for others: no block waits for a block without keys, or writes to
    // its memory.
    if (kKnowsEnd && (busy >> split & 1) == 0) return;
  }
  i32 new_row = -1;
  T* const own_queries = reinterpret_cast<T*>(shared + Shape::shared_bytes(kAhead, kSplitK));
  T* const own_key = own_queries + Shape::kRows * Shape::kHead;
  T* const own_value = own_key + Shape::kHead;
  // The new row in the cache's format.
  Key* const key_row =
      reinterpret_cast<Key*>(Shape::kScaled ? own_value + Shape::kValueHead : own_key);
  Key* const value_row =
      Shape::kScaled ? key_row + Shape::kHead : reinterpret_cast<Key*>(own_value);
  float* const row_scales = reinterpret_cast<float*>(value_row + Shape::kValueHead);
  if constexpr (Prologue::kMakes) {
    const i32 hoped = p.keys;
    if (Prologue::kAhead) copy_first();
    new_row = prologue.make(own_queries, own_key, own_value, [&] { p = prologue.wait(); });
    p.q = own_queries;
    p.q_stride = Shape::kHead;
    if (Prologue::kAhead && p.keys != hoped) {
      cp_async_wait<0>();
      barrier();
      copy_first();
    }
  }
  const i32 end = kKnowsEnd ? p.keys : end_of_keys(p);
  if (kAhead == 1 && !Prologue::kAhead && round < end) copy_first();
  i32 under_way = round;  // the round whose tile is copied next
  if constexpr (kAhead > 1) {
#pragma unroll
    for (int stage = 0; stage < kAhead; ++stage, under_way = Rounds::next(under_way)) {
      const i32 first = under_way + group * kKeys;
      if (first < end) {
        const Blocks blocks = kAsksEarly ? early[stage] : blocks_of_tile(first);
        copy_keys(stage, first, blocks);
        copy_values(stage, first, blocks);
      }
      cp_async_commit();
    }
  }
  if constexpr (Shape::kHeadColumns % 16 != 0) {  // the last MMA step of 16 reads past the head
    for (int i = thread; i < kKeys * kAhead; i += Shape::kThreads)
#pragma unroll
      for (int c = Shape::kHeadColumns; c < Shape::kSteps * 16; ++c)
        keys_of(i / kKeys)[i % kKeys * Shape::kKeyPitch + c] = Key{0};
  }
  if constexpr (Prologue::kMakes) {
    __syncthreads();
    if constexpr (Shape::kScaled) {
      if (group == 0) row_scales[0] = round_row<Shape::kHead>(key_row, own_key, lane);
      if (group == kGroups - 1)
        row_scales[1] = round_row<Shape::kValueHead>(value_row, own_value, lane);
      __syncthreads();
    }
    if (split == 0 && group == 0 && new_row >= 0) {
      put_row<Shape::kHead, Shape::kVector>(const_cast<Key*>(p.k) + new_row * p.k_stride, key_row,
                                            lane);
      put_row<Shape::kValueHead, Shape::kVector>(const_cast<Key*>(p.v) + new_row * p.v_stride,
                                                 value_row, lane);
      if (Shape::kScaled && lane == 0) {
        const_cast<float*>(p.key_scale)[new_row * p.key_scale_stride] = row_scales[0];
        const_cast<float*>(p.value_scale)[new_row * p.value_scale_stride] = row_scales[1];
      }
    }
  }
  // Replaces the copied row by the new one: all copies of this warp have completed.
  constexpr int kWide = 16 / static_cast<int>(sizeof(Key));
  const auto add_new_row = [&](Key* tile, float* scales, const auto& put) {
    if (!Prologue::kMakes || new_row < 0) return;
    // The block table says where the row of the sequence's last key is.
    const i32 key = Shape::kPaged ? p.keys - 1 : new_row;
    if (key < key0 || key >= key0 + kKeys || key >= p.keys) return;
    __syncwarp();
    put(tile, scales + (key - key0), key - key0);
  };
  const auto add_key = [&](Key* tile, float* scale, i32 row) {
    put_row<Shape::kHead, kWide>(tile + row * Shape::kKeyPitch, key_row, lane);
    if (Shape::kScaled && lane == 0) *scale = row_scales[0];
  };
  const auto add_value = [&](Key* tile, float* scale, i32 row) {
    put_row<Shape::kValueHead, kWide>(tile + row * Shape::kValuePitch, value_row, lane);
    if (Shape::kScaled && lane == 0) *scale = row_scales[1];
  };
  Rows rows;
  rows.clear(p.first_row + warp * Shape::kWarpRows, lane);
  rows.load_queries(p);
  const i32 last_seen = Shape::kCausal ? rows.row0 + Shape::kWarpRows - 1 + p.diagonal : p.keys;

  int stage = 0;
  for (bool is_first = true; round < end; is_first = false) {
    const i32 next_round = Rounds::next(round);
    const bool live = key0 < end && key0 <= last_seen;
    MaskTile<Shape> mask_tile;
    rows.load_mask(p, mask_tile, key0);
    if (kAhead > 1)
      cp_async_wait<kAhead - 1>();
    else if (is_first)
      cp_async_wait<1>();
    else
      cp_async_wait<0>();
    add_new_row(keys_of(stage), key_scales_of(stage), add_key);
    barrier();  // keys are visible; the previous tile's values are no longer read
    if (kAhead == 1 && !is_first) {
      copy_values(0, key0, blocks_of_tile(key0));
      cp_async_commit();
    }
    typename Rows::Scores s;
    if (live) {
      rows.scores(s, keys_of(stage), lane);
      if constexpr (Shape::kScaled) rows.scale_keys(s, key_scales_of(stage), Rows::kKeyUnit);
      rows.mask(p, s, mask_tile, key0);
      typename Rows::Shrink shrink;
      rows.weigh(p, s, shrink);
      rows.rescale(shrink);
    }
    if constexpr (kAhead == 1) {
      cp_async_wait<0>();
      add_new_row(values_of(stage), value_scales_of(stage), add_value);
      barrier();  // values are visible; this tile's keys are no longer read
      if (next_round < end) {
        const i32 next = next_round + group * kKeys;
        copy_keys(0, next, blocks_of_tile(next));
        cp_async_commit();
      }
    }
    if (live) {
      if constexpr (Shape::kScaled)
        rows.scale_keys(s, value_scales_of(stage), ScaledRow<Key>::kUnit);
      rows.add_values(s, values_of(stage), lane);
    }
    if constexpr (kAhead > 1) {
      barrier();
      const i32 next = under_way + group * kKeys;
      under_way = Rounds::next(under_way);
      if (next < end) {
        const Blocks blocks = blocks_of_tile(next);
        copy_keys(stage, next, blocks);
        copy_values(stage, next, blocks);
      }
      cp_async_commit();
      stage = stage + 1 < kAhead ? stage + 1 : 0;
    }
    round = next_round;
    key0 = round + group * kKeys;
  }

  rows.finish();
  if constexpr (kGroups == 1) {
    rows.store(p);
  } else {
    float* const parts = reinterpret_cast<float*>(shared);
    if (Prologue::kAhead) cp_async_wait<0>();  // drain copies of unused tiles
    const auto store = [&](i32 row, i32 column, float low, float high, float most, float total) {
      Rows::store_merged(p, row, column, low, high, most, total);
    };
    __syncthreads();  // tiles are no longer read
    rows.put(p, parts + group * Shape::kPartFloats);
    __syncthreads();
    if constexpr (kSplitK == 1) {
      Rows::template merge<kGroups>(p, parts, store);
    } else {
      // Each block sends its partial result to its slot in the first block.
      float* const sent = reinterpret_cast<float*>(shared + Shape::parts_at(kAhead));
      float* const own = sent + split * Shape::kPartFloats;
      cluster_wait();  // all blocks have started
      const auto send = [&](i32 row, i32 column, float low, float high, float most, float total) {
        float* const to = own + row * Shape::kPartPitch;
        send_pair(to + column, low, high, arrived, 0);
        if (column == 0) send_pair(to + Shape::kValueHead, most, total, arrived, 0);
      };
      Rows::template merge<kGroups>(p, parts, send);
      end_sending(arrived, split == 0);
      if (split == 0) Rows::template merge<kSplitK>(p, sent, store, busy);
    }
  }
}
