// SPDX-License-Identifier: Apache-2.0
// Indices grouped by value: a stable radix sort of (row, position), eight bits in a pass, and where
// each row begins. Every position in the order follows from counts alone.
#pragma once

#include "lanes.cuh"

constexpr int kGroupThreads = 256, kGroupWarps = kGroupThreads / 32, kDigits = 256;
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

SINTER_DEVICE u32 digit_of(u32 key, int shift) { return key >> shift & (kDigits - 1); }

/// counts[digit * tiles + tile]: how many keys of a tile have the digit.
template <class Key>
SINTER_DEVICE void count_digits(const IndexProblem& p, const Key* keys, u32* counts, int shift) {
  __shared__ u32 here[kDigits];
  const i64 tiles = (p.count + kGroupTile - 1) / kGroupTile, tile = blockIdx.x;
  if (tile >= tiles) return;
  here[threadIdx.x] = 0;
  __syncthreads();
  for (int k = 0; k < kGroupEach; ++k) {
    const i64 i = tile * kGroupTile + k * kGroupThreads + threadIdx.x;
    if (i < p.count) atomicAdd(&here[digit_of(key_at(p, keys, i), shift)], 1u);
  }
  __syncthreads();
  counts[threadIdx.x * tiles + tile] = here[threadIdx.x];
}

/// A block adds up the counts of one digit: each becomes that of the tiles before.
SINTER_DEVICE void add_counts(const IndexProblem& p, u32* counts, u32* totals) {
  __shared__ u32 scratch[kGroupWarps];
  const i64 tiles = (p.count + kGroupTile - 1) / kGroupTile;
  u32* of_digit = counts + blockIdx.x * tiles;
  u32 total = 0;
  for (i64 first = 0; first < tiles; first += kGroupThreads) {
    const i64 tile = first + threadIdx.x;
    const u32 here = tile < tiles ? of_digit[tile] : 0;
    const u32 sum = running_sum(here, scratch);
    if (tile < tiles) of_digit[tile] = total + sum - here;
    for (int warp = 0; warp < kGroupWarps; ++warp) total += scratch[warp];
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

/// Ranks of a tile's keys among those of the same digit, warp by warp: warp w has elements
/// [256 w, 256 w + 256), a thread one of each 32. `seen` has kGroupWarps * kDigits counts.
SINTER_DEVICE void rank_tile(const u32 (&keys)[kGroupEach], u32 live, int shift, u32* seen,
                             u32 (&ranks)[kGroupEach]) {
  const int lane = threadIdx.x % 32;
  u32* own = seen + threadIdx.x / 32 * kDigits;
  for (int d = lane; d < kDigits; d += 32) own[d] = 0;
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kGroupEach; ++k) {
    const bool is_live = live >> k & 1;
    const u32 digit = digit_of(keys[k], shift);
    const u32 peers = lanes_alike(is_live ? digit : kDigits);
    const u32 before = peers & ((1u << lane) - 1);
    const u32 known = own[digit];
    __syncwarp();
    if (is_live && before == 0) own[digit] = known + __popc(peers);
    __syncwarp();
    ranks[k] = known + __popc(before);
  }
}

SINTER_DEVICE int element_of_tile(int k) {
  return threadIdx.x / 32 * (32 * kGroupEach) + k * 32 + threadIdx.x % 32;
}

/// A pass: keys and positions (at first the elements' own) to their places by one digit.
template <class Key>
SINTER_DEVICE void place_digits(const IndexProblem& p, const Key* keys, const u32* positions,
                                const u32* counts, const u32* totals, u32* new_keys,
                                u32* new_positions, int shift) {
  __shared__ u32 seen[kGroupWarps * kDigits], scratch[kGroupWarps];
  const i64 tiles = (p.count + kGroupTile - 1) / kGroupTile, tile = blockIdx.x;
  if (tile >= tiles) return;
  u32 own[kGroupEach], ranks[kGroupEach], live = 0;
#pragma unroll
  for (int k = 0; k < kGroupEach; ++k) {
    const i64 i = tile * kGroupTile + element_of_tile(k);
    own[k] = i < p.count ? key_at(p, keys, i) : 0;
    if (i < p.count) live |= 1u << k;
  }
  rank_tile(own, live, shift, seen, ranks);
  // Digits before this one, tiles before this one, warps before each one.
  const u32 all = totals[threadIdx.x];
  u32 before = running_sum(all, scratch) - all + counts[threadIdx.x * tiles + tile];
  for (int warp = 0; warp < kGroupWarps; ++warp) {
    const u32 here = seen[warp * kDigits + threadIdx.x];
    seen[warp * kDigits + threadIdx.x] = before;
    before += here;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kGroupEach; ++k) {
    if (!(live >> k & 1)) continue;
    const i64 i = tile * kGroupTile + element_of_tile(k);
    const u32 to = seen[threadIdx.x / 32 * kDigits + digit_of(own[k], shift)] + ranks[k];
    new_keys[to] = own[k];
    new_positions[to] = positions == nullptr ? static_cast<u32>(i) : positions[i];
  }
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
  __shared__ u32 seen[kGroupWarps * kDigits], scratch[kGroupWarps];
  __shared__ u32 sorted[kGroupTile], at[kGroupTile];
  u32 own[kGroupEach], position[kGroupEach], ranks[kGroupEach], live = 0;
#pragma unroll
  for (int k = 0; k < kGroupEach; ++k) {
    const int i = element_of_tile(k);
    own[k] = i < p.count ? row_of(p, index[i]) : 0;
    position[k] = i;
    if (i < p.count) live |= 1u << k;
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    const int shift = 8 * pass;
    rank_tile(own, live, shift, seen, ranks);
    __syncthreads();
    u32 all = 0;
    for (int warp = 0; warp < kGroupWarps; ++warp) all += seen[warp * kDigits + threadIdx.x];
    u32 before = running_sum(all, scratch) - all;
    for (int warp = 0; warp < kGroupWarps; ++warp) {
      const u32 here = seen[warp * kDigits + threadIdx.x];
      seen[warp * kDigits + threadIdx.x] = before;
      before += here;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kGroupEach; ++k) {
      if (!(live >> k & 1)) continue;
      const u32 to = seen[threadIdx.x / 32 * kDigits + digit_of(own[k], shift)] + ranks[k];
      sorted[to] = own[k];
      at[to] = position[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kGroupEach; ++k) {
      if (!(live >> k & 1)) continue;
      own[k] = sorted[element_of_tile(k)];
      position[k] = at[element_of_tile(k)];
    }
  }
#pragma unroll
  for (int k = 0; k < kGroupEach; ++k) {
    if (!(live >> k & 1)) continue;
    order[element_of_tile(k)] = position[k];
    if (keys != nullptr) keys[element_of_tile(k)] = own[k];
  }
  __syncthreads();
  for (i64 row = threadIdx.x; keys == nullptr && row <= p.rows; row += kGroupThreads)
    starts[row] = static_cast<i32>(first_of_row(sorted, p.count, u32(row)));
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
