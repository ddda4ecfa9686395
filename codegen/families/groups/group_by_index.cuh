// SPDX-License-Identifier: Apache-2.0
// Indices grouped by value: a stable radix sort of (row, position), and where each row begins.
#pragma once

#include "radix.cuh"

constexpr int kGroupThreads = 256;
constexpr int kGroupEach = 8;  // indices of a thread
constexpr int kGroupTile = kGroupThreads * kGroupEach;

/// Indices of `rows` rows; those out of range are of row `rows`, behind all others.
struct IndexProblem {
  i64 count, rows;
};
template <class Index>
SINTER_DEVICE u32 row_of(const IndexProblem& p, Index index) {
  const i64 row = static_cast<i64>(index) < 0 ? static_cast<i64>(index) + p.rows : index;
  return static_cast<u32>(row >= 0 && row < p.rows ? row : p.rows);
}
/// What was sorted before has keys; at first these follow from the indices.
SINTER_DEVICE u32 key_at(const IndexProblem&, const u32* keys, i64 i) { return keys[i]; }
SINTER_DEVICE u32 key_at(const IndexProblem& p, const i32* index, i64 i) {
  return row_of(p, index[i]);
}
SINTER_DEVICE u32 key_at(const IndexProblem& p, const i64* index, i64 i) {
  return row_of(p, index[i]);
}

template <int kPasses>
SINTER_DEVICE RadixMemory<kPasses> memory_of(const IndexProblem& p, u64* words) {
  return {words, 1, (p.count + kGroupTile - 1) / kGroupTile};
}
template <int kPasses>
SINTER_DEVICE void clear_counts(const IndexProblem& p, u64* words) {
  memory_of<kPasses>(p, words).clear();
}
template <int kPasses, class Index>
SINTER_DEVICE void count_digits(const IndexProblem& p, const Index* index, u64* words) {
  const RadixMemory<kPasses> memory = memory_of<kPasses>(p, words);
  const i64 parts = min_size(memory.tiles, kMostParts);
  if (i64(blockIdx.x) >= parts) return;
  __shared__ RadixCounts<u32, kPasses, kGroupThreads, kGroupEach> counts;
  counts.count(p.count, blockIdx.x, parts, memory.counts(0),
               [&](i64 i) { return row_of(p, index[i]); });
}
/// A pass: keys and positions (at first the elements' own) of a tile to their places by one digit.
template <int kPasses, class Key>
SINTER_DEVICE void move_digits(const IndexProblem& p, const Key* keys, const u32* positions,
                               u64* words, u32* new_keys, u32* new_positions, int pass) {
  const RadixMemory<kPasses> memory = memory_of<kPasses>(p, words);
  if (i64(blockIdx.x) >= memory.tiles) return;
  __shared__ RadixPass<u32, kGroupThreads, kGroupEach> tile;
  tile.move(
      p.count, blockIdx.x, pass, memory.counts(0) + pass * kDigits, memory.records(0),
      [&](i64 i) { return key_at(p, keys, i); },
      [&](i64 i) { return positions == nullptr ? static_cast<u32>(i) : positions[i]; },
      [&](u32 place, u32 key, u32 position) {
        new_keys[place] = key;
        new_positions[place] = position;
      });
}

/// The first element of ascending `keys` that is not less than `row`.
SINTER_DEVICE i64 first_of_row(const u32* keys, i64 count, u32 row) {
  i64 low = 0, high = count;
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (keys[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
SINTER_DEVICE void find_starts(const IndexProblem& p, const u32* keys, i32* starts) {
  const i64 row = i64(blockIdx.x) * kGroupThreads + threadIdx.x;
  if (row <= p.rows) starts[row] = static_cast<i32>(first_of_row(keys, p.count, u32(row)));
}

/// All passes by one block, of at most kGroupTile indices. `keys` null: nobody asks for them.
template <class Index, int kPasses>
SINTER_DEVICE void group_tile(const IndexProblem& p, const Index* index, u32* order, u32* keys,
                              i32* starts) {
  typedef BlockRadix<u32, kGroupThreads, kGroupEach> Radix;
  __shared__ Radix radix;
  const int count = static_cast<int>(p.count);
  u32 own[kGroupEach];
#pragma unroll
  for (int k = 0; k < kGroupEach; ++k) {
    const int i = Radix::Tile::element(k);
    own[k] = i < count ? row_of(p, index[i]) : ~0u;
  }
  radix.sort(own, count, kPasses);
  for (int i = threadIdx.x; i < count; i += kGroupThreads) {
    order[i] = radix.positions[i];
    if (keys != nullptr) keys[i] = radix.keys[i];
  }
  for (i64 row = threadIdx.x; keys == nullptr && row <= p.rows; row += kGroupThreads)
    starts[row] = static_cast<i32>(first_of_row(radix.keys, p.count, u32(row)));
}

// ---- the last position of each row

SINTER_DEVICE void begin_last(const IndexProblem& p, i32* last) {
  const i64 row = i64(blockIdx.x) * kGroupThreads + threadIdx.x;
  if (row < p.rows) last[row] = -1;
}
template <class Index>
SINTER_DEVICE void find_last(const IndexProblem& p, const Index* index, i32* last) {
  const i64 i = i64(blockIdx.x) * kGroupThreads + threadIdx.x;
  if (i >= p.count) return;
  const u32 row = row_of(p, index[i]);
  if (row < p.rows) atomicMax(&last[row], static_cast<i32>(i));
}
