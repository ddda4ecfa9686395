// SPDX-License-Identifier: Apache-2.0
// Stable radix sorts of keys with their positions, eight bits in a pass, the lowest first: by one
// block in shared memory, or by a block for each tile of a row. There each pass reads and writes
// the row once: all passes' digits are counted before, and a tile learns by decoupled look-back how
// many of each digit the tiles before it have (Adinets and Merrill, Onesweep, 2022). Places follow
// from counts alone: equal inputs give equal bits.
#pragma once

#include "lanes.cuh"
#include "published.cuh"

constexpr int kDigits = 256;

template <class Key>
SINTER_DEVICE u32 digit_of(Key key, int shift) {
  return static_cast<u32>(key >> shift) & (kDigits - 1);
}

/// The lanes that have the same digit. Eight ballots: what __match_any_sync takes grows with the
/// number of different digits.
SINTER_DEVICE u32 lanes_of_digit(u32 digit) {
  u32 alike = 0xffffffffu;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const bool is_set = (digit >> bit & 1) != 0;
    const u32 set = __ballot_sync(0xffffffffu, is_set);
    alike &= is_set ? set : ~set;
  }
  return alike;
}

/// Shared memory of a block with kEach keys of each thread. Key k of a thread is element(k) of the
/// tile: a warp has neighbours. Keys behind the last are ~0, and stay behind all others.
template <int kThreads, int kEach>
struct RadixTile {
  static constexpr int kWarps = kThreads / 32, kTile = kThreads * kEach;
  static_assert(kThreads >= kDigits, "a thread for each digit");
  u32 seen[kWarps][kDigits], sums[kWarps];

  SINTER_DEVICE static int element(int k) {
    return threadIdx.x / 32 * (32 * kEach) + k * 32 + threadIdx.x % 32;
  }

  /// Places of the keys in the tile when it is sorted by one digit. The thread of each digit calls
  /// known() with its count in the tile, and gets the place of its first key.
  template <class Key, class Known>
  SINTER_DEVICE u32 find_places(const Key (&keys)[kEach], int shift, u32 (&places)[kEach],
                                const Known& known) {
    const int lane = threadIdx.x % 32;
    u32* const own = seen[threadIdx.x / 32];
    for (int d = lane; d < kDigits; d += 32) own[d] = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) places[k] = lanes_of_digit(digit_of(keys[k], shift));
    __syncwarp();
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const u32 digit = digit_of(keys[k], shift), peers = places[k];
      const u32 before = peers & ((1u << lane) - 1), earlier = own[digit];
      __syncwarp();
      if (before == 0) own[digit] = earlier + __popc(peers);
      __syncwarp();
      places[k] = earlier + __popc(before);
    }
    __syncthreads();
    u32 total = 0;
    if (threadIdx.x < kDigits) {
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) total += seen[warp][threadIdx.x];
      known(total);
    }
    const u32 first = running_sum(total, sums) - total;
    if (threadIdx.x < kDigits) {
      u32 next = first;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        const u32 of_warp = seen[warp][threadIdx.x];
        seen[warp][threadIdx.x] = next;
        next += of_warp;
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kEach; ++k) places[k] += own[digit_of(keys[k], shift)];
    return first;
  }
};

/// Shared memory of a block that sorts a tile.
template <class Key, int kThreads, int kEach>
struct BlockRadix {
  typedef RadixTile<kThreads, kEach> Tile;
  static_assert(Tile::kTile <= 0x10000, "positions have 16 bits");
  Key keys[Tile::kTile];  // sorted, as their positions are
  u16 positions[Tile::kTile];
  Tile tile;
  u32 differing;  // digits that are not the same in all keys

  /// Sorts the `count` keys that the block has by their lowest `digits` digits.
  SINTER_DEVICE void sort(Key (&own)[kEach], int count, int digits) {
    if (threadIdx.x == 0) differing = 0;
    u32 at[kEach], differs = 0;
    keys[Tile::element(0)] = own[0];
    __syncthreads();
    const Key first = keys[0];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      at[k] = Tile::element(k);
      for (int d = 0; d < digits; ++d)
        if (Tile::element(k) < count && digit_of(own[k] ^ first, 8 * d) != 0) differs |= 1u << d;
    }
    for (int d = 0; d < digits; ++d)
      if (__ballot_sync(0xffffffffu, (differs >> d & 1) != 0) != 0 && threadIdx.x % 32 == 0)
        atomicOr(&differing, 1u << d);
    __syncthreads();
    u32 left = differing == 0 ? 1 : differing;
    for (int pass = 0; left != 0; ++pass, left /= 2) {
      if (left % 2 == 0) continue;
      u32 places[kEach];
      tile.find_places(own, 8 * pass, places, [](u32) {});
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        keys[places[k]] = own[k];
        positions[places[k]] = static_cast<u16>(at[k]);
      }
      __syncthreads();
      if (left == 1) return;
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        own[k] = keys[Tile::element(k)];
        at[k] = positions[Tile::element(k)];
      }
    }
  }
};

// ---- rows of many tiles

/// Counts of each digit of each pass of each row, then a record of each digit of each tile; in a
/// buffer whose rows may have more tiles.
template <int kPasses>
struct RadixMemory {
  u64* words;
  i64 rows, tiles;

  SINTER_DEVICE u32* counts(i64 row) const {
    return reinterpret_cast<u32*>(words) + row * (kPasses * kDigits);
  }
  SINTER_DEVICE u64* records(i64 row) const {
    return words + rows * (kPasses * kDigits / 2) + row * tiles * kDigits;
  }
  /// Before digits are counted: by blocks of 256 threads with 8 words each.
  SINTER_DEVICE void clear() const {
    const i64 count = tiles == 0 ? 0 : rows * (kPasses * kDigits / 2 + tiles * kDigits);
    const i64 first = i64(blockIdx.x) * 2048 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 8; ++k)
      if (first + k * 256 < count) words[first + k * 256] = 0;
  }
};

constexpr i64 kMostParts = 512;  // of a row whose digits are counted, each by a block

/// Counts of digits of a row in memory: kDigits for each pass. Copies keep lanes with equal digits
/// apart; where a whole warp has one digit, one lane counts.
template <class Key, int kPasses, int kThreads, int kEach>
struct RadixCounts {
  static constexpr int kCopies = 4, kTile = kThreads * kEach;
  u32 here[kCopies][kPasses * kDigits];

  /// Adds part `part` of `parts` of a row. key_at(i): that of element i.
  template <class KeyAt>
  SINTER_DEVICE void count(i64 length, i64 part, i64 parts, u32* counts, const KeyAt& key_at) {
    u32* const all = here[0];
    for (int i = threadIdx.x; i < kCopies * kPasses * kDigits; i += kThreads) all[i] = 0;
    __syncthreads();
    u32* const own = here[threadIdx.x % kCopies];
    for (i64 first = part * kTile; first < length; first += parts * kTile) {
      Key keys[kEach];
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const i64 i = first + k * kThreads + threadIdx.x;
        keys[k] = i < length ? key_at(i) : Key(0);
      }
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const bool is_there = first + k * kThreads + threadIdx.x < length;
        const bool are_there = all_lanes(is_there);
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
          const u32 digit = digit_of(keys[k], 8 * pass);
          if (all_lanes(digit == from_lane(digit, 0)) && are_there) {
            if (threadIdx.x % 32 == 0) atomicAdd(&own[pass * kDigits + digit], 32u);
          } else if (is_there) {
            atomicAdd(&own[pass * kDigits + digit], 1u);
          }
        }
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kPasses * kDigits; i += kThreads) {
      u32 sum = 0;
#pragma unroll
      for (int copy = 0; copy < kCopies; ++copy) sum += here[copy][i];
      if (sum != 0) atomicAdd(&counts[i], sum);
    }
  }
};

/// Which of a row's passes do something: in the others all keys have the digit of `first`, one of
/// them. At least one, which moves the positions. For whole warps.
template <int kPasses, class Key>
SINTER_DEVICE u32 passes_needed(const u32* counts, Key first, i64 length) {
  const int pass = threadIdx.x % 32;
  const bool differs =
      pass < kPasses && counts[pass * kDigits + digit_of(first, 8 * pass)] != length;
  const u32 needed = __ballot_sync(0xffffffffu, differs);
  return needed == 0 ? 1 : needed;
}

/// How many of a digit the tiles before tile `tile` have in pass `pass`; `records` is tile 0's of
/// that digit. Each pass has states of its own: records are cleared once.
SINTER_DEVICE u32 count_before(const u64* records, i64 tile, int pass) {
  constexpr int kAhead = 4;  // records on their way
  const u32 own = 2 * pass + 1, whole = 2 * pass + 2;
  u32 before = 0;
  while (tile > 0) {
    u32 states[kAhead], counts[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      states[j] = 0;
      if (tile > j) states[j] = published(records + (tile - 1 - j) * kDigits, counts[j]);
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (states[j] < own) break;
      before += counts[j];
      if (states[j] == whole) return before;
      --tile;
    }
  }
  return before;
}

/// Shared memory of a block that moves a tile of a row to its places by one digit.
template <class Key, int kThreads, int kEach>
struct RadixPass {
  typedef RadixTile<kThreads, kEach> Tile;
  static constexpr int kTile = Tile::kTile;
  Key keys[kTile];  // by digit, as their positions are
  u32 positions[kTile];
  Tile tile;
  u32 begins[kDigits];  // of each digit: what leads from a place in the tile to that in the row

  /// `counts`: of the pass; `records`: the row's, kDigits for each tile. Reads key_at(i) and
  /// position_at(i), the row's i-th, and calls store(place, key, position).
  template <class KeyAt, class PositionAt, class Store>
  SINTER_DEVICE void move(i64 length, i64 number, int pass, const u32* counts, u64* records,
                          const KeyAt& key_at, const PositionAt& position_at, const Store& store) {
    const i64 first = number * kTile;
    const int here = static_cast<int>(length - first < kTile ? length - first : kTile);
    u64* const record = records + number * kDigits + threadIdx.x % kDigits;
    const u32 of_row = threadIdx.x < kDigits ? counts[threadIdx.x] : 0;
    Key own[kEach];
    u32 places[kEach], count = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = Tile::element(k);
      own[k] = e < here ? key_at(first + e) : static_cast<Key>(~Key(0));
    }
    const u32 begin = tile.find_places(own, 8 * pass, places, [&](u32 total) {
      count = total;
      publish(record, 2 * pass + 1, total);
    });
#pragma unroll
    for (int k = 0; k < kEach; ++k) keys[places[k]] = own[k];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = Tile::element(k);
      if (e < here) positions[places[k]] = position_at(first + e);
    }
    const u32 digits_before = running_sum(of_row, tile.sums) - of_row;
    if (threadIdx.x < kDigits) {
      const u32 tiles_before = count_before(records + threadIdx.x, number, pass);
      publish(record, 2 * pass + 2, tiles_before + count);
      begins[threadIdx.x] = digits_before + tiles_before - begin;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < here; i += kThreads) {
      const Key key = keys[i];
      store(begins[digit_of(key, 8 * pass)] + i, key, positions[i]);
    }
  }
};
