// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression: keeps boxes that no better kept box overlaps. A block, or a cluster of
// blocks, processes each row of boxes, which are sorted.
//
// Boxes are processed in tiles. The remaining candidates of a tile are compared pairwise, one warp
// scans them in order, and the rest of the row is compared with the kept ones. Blocks of a cluster
// split both comparisons.
#pragma once

#include "cluster.cuh"

struct Box {
  float low_x, low_y, high_x, high_y;
};

SINTER_DEVICE float area_of(const Box& box) {
  return (box.high_x - box.low_x) * (box.high_y - box.low_y);
}

/// Whether the intersection of two boxes exceeds `most` times their union; boxes without area never
/// do.
SINTER_DEVICE bool overlap(const Box& a, const Box& b, float most) {
  const float width =
      (a.high_x < b.high_x ? a.high_x : b.high_x) - (a.low_x > b.low_x ? a.low_x : b.low_x);
  const float height =
      (a.high_y < b.high_y ? a.high_y : b.high_y) - (a.low_y > b.low_y ? a.low_y : b.low_y);
  const float first = area_of(a), second = area_of(b), both = width * height;
  const float all = first + second - both;
  return width > 0 && height > 0 && first > 0 && second > 0 && all > 0 && both / all > most;
}

SINTER_DEVICE Box box_at(const float* boxes, i64 i) {
  const float* box = boxes + 4 * i;
  return {box[0], box[1], box[2], box[3]};
}

/// Dynamic shared memory of a block.
template <int kTile>
struct SuppressionMemory {
  Box tile[kTile];
  u32 overlaps[kTile][kTile / 32];  // block 0: for each box, a bit mask of earlier boxes that it
                                    // overlaps
  u32 left[kTile / 32];             // bit mask of candidates, then of kept boxes
};

/// Processes row `row` of `length` boxes, by a cluster of kBlocks blocks of kTile threads; this
/// block is number `rank`. Keeps the first `limit`; 0: all.
template <int kTile, int kBlocks>
SINTER_DEVICE void suppress_row(const float* boxes, const b8* valid, b8* kept, i64 row, int rank,
                                i64 length, float most, i64 limit = 0) {
  constexpr int kWords = kTile / 32, kOwn = kTile / kBlocks;  // boxes compared by one block
  SINTER_DYNAMIC_SHARED(memory);
  auto& shared = *reinterpret_cast<SuppressionMemory<kTile>*>(memory);
  auto& tile = shared.tile;
  auto& overlaps = shared.overlaps;
  auto& left = shared.left;
  const int thread = static_cast<int>(threadIdx.x);
  const auto all_wait = [] {
    if constexpr (kBlocks > 1)
      cluster_barrier();
    else
      __syncthreads();
  };
  boxes += row * length * 4;
  valid += row * length;
  // Other blocks write and read it too: volatile bypasses this multiprocessor's L1.
  volatile u8* const flags = &kept[row * length].bits;
  if constexpr (kBlocks > 1)
    all_wait();  // all blocks have started: their shared memory may be
                 // written
  // In the threads that scan: how many more may be kept.
  i64 free = limit == 0 ? length : limit;
  for (i64 begin = 0; begin < length; begin += kTile) {
    const i64 mine = begin + thread;
    // After the first tile, `kept` holds the remaining candidates.
    const bool candidate = mine < length && (begin == 0 ? valid[mine].bits : flags[mine]) != 0;
    tile[thread] = mine < length ? box_at(boxes, mine) : Box{0, 0, 0, 0};
    const u32 bits = __ballot_sync(0xffffffffu, candidate);
    if (thread % 32 == 0) left[thread / 32] = bits;
    __syncthreads();
    for (int pair = thread; pair < kOwn * kWords; pair += kTile) {
      // Interleaves boxes over blocks for balance.
      const int box = pair / kWords * kBlocks + rank, word = pair % kWords;
      u32 hits = 0;
      if ((left[box / 32] >> (box % 32) & 1) != 0)
        for (u32 rest = left[word]; rest != 0; rest &= rest - 1) {
          const u32 lowest = rest & (~rest + 1);
          const int other = word * 32 + 31 - __clz(static_cast<int>(lowest));
          if (other >= box) break;
          if (overlap(tile[other], tile[box], most)) hits |= lowest;
        }
      u32* const slot = &overlaps[box][word];
      if constexpr (kBlocks > 1)
        *of_block(slot, 0) = hits;
      else
        *slot = hits;
    }
    all_wait();
    if (rank == 0 && thread < 32) {
      // Lane l has word l of the kept boxes.
      u32 keep = 0;
      for (int word = 0; word < kWords; ++word)
        for (u32 rest = left[word]; rest != 0; rest &= rest - 1) {
          const u32 lowest = rest & (~rest + 1);
          const int box = word * 32 + 31 - __clz(static_cast<int>(lowest));
          const bool hit = thread < kWords && (overlaps[box][thread] & keep) != 0;
          if (__ballot_sync(0xffffffffu, hit) != 0 || free == 0) continue;
          if (thread == word) keep |= lowest;
          --free;
        }
      __syncwarp();
      if (thread < kWords) {
        if constexpr (kBlocks > 1)
          for (int block = 0; block < kBlocks; ++block)
            *of_block(&left[thread], static_cast<u32>(block)) = keep;
        else
          left[thread] = keep;
      }
    }
    all_wait();
    if (rank == 0 && mine < length)
      flags[mine] = static_cast<u8>(left[thread / 32] >> (thread % 32) & 1);
    for (i64 later = begin + kTile + i64(rank) * kTile + thread; later < length;
         later += kTile * kBlocks) {
      bool stays = (begin == 0 ? valid[later].bits : flags[later]) != 0;
      const Box other = box_at(boxes, later);
      for (int word = 0; stays && word < kWords; ++word)
        for (u32 rest = left[word]; stays && rest != 0; rest &= rest - 1) {
          const u32 lowest = rest & (~rest + 1);
          stays = !overlap(tile[word * 32 + 31 - __clz(static_cast<int>(lowest))], other, most);
        }
      flags[later] = static_cast<u8>(stays);
    }
    all_wait();
  }
}
