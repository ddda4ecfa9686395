// Attention of one head: y = softmax(mask(scale * q k')) v for a few rows of queries, without ever
// storing scores. Keys and values pass through shared memory in tiles; a warp multiplies 16 rows
// (or 32) at a time on tensor cores and keeps maxima, sums and results of its rows in float32
// registers, rescaled as the maximum grows (online softmax: Milakov and Gimelshein 2018, Dao et al.
// 2022).
#pragma once

#include "attention_packed.cuh"
#include "attention_rows.cuh"
#include "attention_swapped_rows.cuh"

/// Of keys and values the L2 cache holds about so many bytes until they are read.
constexpr u32 kCached = 24u << 20;
/// Of one key and its value.
template <class Shape>
constexpr u32 kKeyBytes = (Shape::kHead + Shape::kValueHead) * sizeof(typename Shape::Key);

/// Which rows of which head an item is where rows see the keys in front of them; a tile behind the
/// last one is nothing.
struct CausalItem {
  u32 head, tile;
};
/// Blocks that take items in turns (visit_items) get a long one and the short one of the same head
/// that makes up for it, where such pairs fill the turns.
SINTER_DEVICE bool takes_pairs(u32 pairs, u32 items) {
  const u32 turns = (pairs + gridDim.x - 1) / gridDim.x;
  return items > (2 * turns - 1) * gridDim.x && turns * gridDim.x * 8 <= pairs * 9;
}
/// Else those that see the most come first, of as many heads as the L2 cache holds the keys and
/// values of, then of others.
template <class Shape>
SINTER_DEVICE CausalItem causal_item(u32 item, u32 tiles, u32 heads, i32 keys) {
  const CausalItem nothing{0, tiles};
  const u32 each = (tiles + 1) / 2;
  if (takes_pairs(heads * each, heads * tiles)) {
    const u32 turn = item / gridDim.x, place = item % gridDim.x;
    const u32 block = turn % 2 == 0 ? place : gridDim.x - 1 - place;
    const u32 pair = turn / 2 * gridDim.x + block, head = pair / each, tile = pair % each;
    const u32 other = tiles - 1 - tile;
    if (head >= heads || (turn % 2 != 0 && tile == other)) return nothing;
    return {head, turn % 2 == 0 ? other : tile};
  }
  if (item >= heads * tiles) return nothing;
  const u64 bytes = static_cast<u64>(keys) * kKeyBytes<Shape>;
  u32 near = bytes < kCached ? kCached / static_cast<u32>(bytes > 0 ? bytes : 1) : 1;
  near = near < heads ? near : heads;
  const u32 first = item / (near * tiles) * near, rest = item - first * tiles;
  const u32 count = heads - first < near ? heads - first : near;
  return {first + rest % count, tiles - 1 - rest / count};
}

/// The item of a block, where earlier ones take longer and blocks come to kTurns multiprocessors in
/// turns: every second turn goes backwards, so that a multiprocessor has long and short ones.
template <u32 kTurns>
SINTER_DEVICE u32 balanced_item(u32 block, u32 blocks) {
  const u32 turn = block / kTurns, first = turn * kTurns;
  if (turn % 2 == 0) return block;
  const u32 left = blocks - first;
  return first + (left < kTurns ? left : kTurns) - 1 - (block - first);
}

/// The end of the keys that some row of the block sees.
template <class Shape>
SINTER_DEVICE i32 end_of_keys(const AttentionProblem<Shape>& p) {
  i32 end = p.keys;
  if constexpr (Shape::kLimited) {  // a warp finds the greatest together
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

/// The first key that some row of the block sees through its window.
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

/// The first key of the first tile that some row of the block sees.
template <class Shape>
SINTER_DEVICE i32 first_tile_of_keys(const AttentionProblem<Shape>& p) {
  if constexpr (Shape::kWindow == 0) return 0;
  return first_of_keys(p) / Shape::kKeys * Shape::kKeys;
}

/// Has the L2 fetch the keys and values that a block of a cluster of kSplitK will read, a row to a
/// thread, from round kFirst on, as far as the L2 holds those of all blocks. They may be changed
/// until the kernel in front has ended: nothing but the L2 sees them.
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
      fetch(p.k + key * p.k_stride, Shape::kHead);
      fetch(p.v + key * p.v_stride, Shape::kValueHead);
      if (Shape::kScaled && key % 32 == 0) {  // of as many keys, where they lie side by side
        fetch_line(p.key_scale + key * p.key_scale_stride);
        fetch_line(p.value_scale + key * p.value_scale_stride);
      }
    }
}

/// Where the keys of a tile are, which begins at a multiple of Shape::kKeys: of a paged cache the
/// first rows of the blocks that it lies in, looked up once for all copies of the tile. Else
/// (kKnown: not) each key is looked up.
template <class Shape>
struct TileBlocks {
  static constexpr int kBlock = Shape::kPaged ? Shape::kBlock : 1, kKeys = Shape::kKeys;
  static constexpr bool kWhole = kKeys % kBlock == 0;  // of blocks, else a part of one
  // A choice for each block and copy: not of many.
  static constexpr bool kKnown =
      Shape::kPaged && (kBlock % kKeys == 0 || (kWhole && kKeys / kBlock <= 4));
  static constexpr int kCount = kKnown && kWhole ? kKeys / kBlock : 1;
  i32 first[kCount] = {};  // of each block, less how many keys of the tile are in front of it

  SINTER_DEVICE void find(const AttentionProblem<Shape>& p, i32 key0) {
    if constexpr (!kKnown) return;
#pragma unroll
    for (int b = 0; b < kCount; ++b) first[b] = p.first_row_at(key0 + b * kBlock) - b * kBlock;
  }
  /// The row of keys and values that `key` is, of the tile from `key0` on.
  SINTER_DEVICE i32 row_of(const AttentionProblem<Shape>& p, i32 key, i32 key0) const {
    if constexpr (!kKnown) return p.row_of_key(key);
    const i32 place = key - key0;
    i32 from = first[0];
#pragma unroll
    for (int b = 1; b < kCount; ++b) from = place >= b * kBlock ? first[b] : from;
    return p.row_in_cache(from + place);
  }
};

/// Which keys a block has, in rounds of a tile for each of its groups. Rounds go to the kSplitK
/// blocks of a cluster in turns, counted from key 0 on, whatever the block's rows see: so the order
/// in which a row's weights are summed depends on nothing but its own keys.
template <class Shape, int kSplitK>
struct KeyRounds {
  static constexpr i32 kRound = Shape::kKeys * Shape::kKeyGroups;

  /// The first key of the first round of block `split` that does not end in front of `first_key`.
  SINTER_DEVICE static i32 first(i32 first_key, int split) {
    const u32 number = static_cast<u32>(first_key) / kRound,
              behind = (static_cast<u32>(split) + kSplitK - number % kSplitK) % kSplitK;
    return static_cast<i32>((number + behind) * kRound);
  }
  SINTER_DEVICE static i32 next(i32 round) { return round + kSplitK * kRound; }
  /// The blocks that have keys in front of `end`, as bits, and the first one.
  SINTER_DEVICE static u32 busy(i32 first_key, i32 end) {
    u32 bits = 1;
#pragma unroll
    for (int split = 1; split < kSplitK; ++split)
      bits |= static_cast<u32>(first(first_key, split) < end) << split;
    return bits;
  }
};

/// What attend() finds in memory: the queries, and all keys and values.
struct NoPrologue {
  static constexpr bool kMakes = false, kAhead = false;
};
/// What it does not: `wait()` waits for the step in front and says what the problem is then,
/// `make(queries, key, value, wait)` has the block's threads write the queries, rows of kHead, and
/// a new row of keys and of values, each thread behind a wait(), and says which row that is (-1:
/// none). kCopiesAhead: the rows of keys and values that there are do not change while the kernel
/// waits.
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

/// How a warp holds its rows.
template <class Shape, bool kSwapped = Shape::kSwapped>
struct RowsOf {
  typedef AttentionRows<Shape> type;
};
template <class Shape>
struct RowsOf<Shape, true> {
  typedef SwappedRows<Shape> type;
};

/// Rows [first_row, first_row + kRows) of one head, by one block of kKeyGroups * kRowWarps warps,
/// or by a cluster of kSplitK such blocks that share out the keys. kAhead: tiles of keys and values
/// that a group of one warp has under way; 1 for groups of more. What
/// `front` makes lies behind all else in shared memory (Shape::kPrologueBytes), and the new row
/// goes to its place in memory too: p is then what the problem may be before the step in front has
/// ended.
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
  // The first tiles' blocks are asked for together with the rows' limits.
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
  // Tables say nothing of keys that no row sees.
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
  // A group's warps wait for each other; one warp alone needs no other group either.
  const auto barrier = [] {
    if constexpr (Shape::kRowWarps == 1)
      __syncwarp();
    else
      __syncthreads();
  };
  const auto copy_keys = [&](int stage, i32 key0, const Blocks& blocks) {
    const auto row_of = [&](i32 key) { return blocks.row_of(p, key, key0); };
    copy_rows<kKeys, Shape::kHead, Shape::kKeyPitch, Shape::kVector, Shape::kThreads>(
        keys_of(stage), p.k, p.k_stride, key0, p.keys, thread, row_of);
    if constexpr (Shape::kScaled)
      copy_scales<kKeys, Shape::kThreads>(key_scales_of(stage), p.key_scale, p.key_scale_stride,
                                          key0, p.keys, thread, row_of);
  };
  const auto copy_values = [&](int stage, i32 key0, const Blocks& blocks) {
    const auto row_of = [&](i32 key) { return blocks.row_of(p, key, key0); };
    copy_rows<kKeys, Shape::kValueHead, Shape::kValuePitch, Shape::kVector, Shape::kThreads>(
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
  u32 busy = (1u << kSplitK) - 1;  // blocks, as bits
  if constexpr (kSplitK > 1) {
    if constexpr (kKnowsEnd) busy = Rounds::busy(first_key, p.keys);
    const i32 left = p.rows - p.first_row > 0 ? p.rows - p.first_row : 0;
    const i32 rows = left < Shape::kRows ? left : Shape::kRows;
    if (split == 0 && threadIdx.x == 0)
      expect_bytes(arrived, __popc(static_cast<int>(busy)) * rows * (Shape::kValueHead + 2) * 4);
    cluster_arrive();
    // Makes room for others. Nobody waits for a block that has ended, or writes to its memory.
    if (kKnowsEnd && (busy >> split & 1) == 0) return;
  }
  i32 new_row = -1;
  T* const own_queries = reinterpret_cast<T*>(shared + Shape::shared_bytes(kAhead, kSplitK));
  T* const own_key = own_queries + Shape::kRows * Shape::kHead;
  T* const own_value = own_key + Shape::kHead;
  // The new row as the cache has it.
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
  i32 under_way = round;  // the round whose tile is copied next, of several that are
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
  if constexpr (Shape::kHead % 16 != 0) {  // the last step of 16 reads 8 elements behind the head
    for (int i = thread; i < kKeys * kAhead; i += Shape::kThreads)
#pragma unroll
      for (int c = 0; c < 8; ++c)
        keys_of(i / kKeys)[i % kKeys * Shape::kKeyPitch + Shape::kHead + c] = Key{0};
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
  // The new row takes the place of what was copied: this warp's copies have all arrived then.
  constexpr int kWide = 16 / static_cast<int>(sizeof(Key));
  const auto add_new_row = [&](Key* tile, float* scales, const auto& put) {
    if (!Prologue::kMakes || new_row < key0 || new_row >= key0 + kKeys || new_row >= p.keys) return;
    __syncwarp();
    put(tile, scales + (new_row - key0), new_row - key0);
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
    barrier();  // keys are there; nobody reads the last tile's values any more
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
      barrier();  // values are there; nobody reads these keys any more
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
    if (Prologue::kAhead) cp_async_wait<0>();  // of tiles that nobody wanted
    const auto store = [&](i32 row, i32 column, float low, float high, float, float total) {
      Rows::store_merged(p, row, column, low, high, total);
    };
    __syncthreads();  // nobody reads tiles any more
    rows.put(p, parts + group * Shape::kPartFloats);
    __syncthreads();
    if constexpr (kSplitK == 1) {
      Rows::template merge<kGroups>(p, parts, store);
    } else {
      // Each block sends its part to the first one's place for it.
      float* const sent = reinterpret_cast<float*>(shared + Shape::parts_at(kAhead));
      float* const own = sent + split * Shape::kPartFloats;
      cluster_wait();  // all blocks have begun
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
