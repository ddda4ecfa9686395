// Packed sequences: which rows of which sequence an item is, and rows that no sequence has.
#pragma once

#include "attention_problem.cuh"

/// A tile of a sequence: its tokens are [begin, begin + tokens) of all, its rows kGroup times as
/// many, of which the tile's own begin at first_row. A tile behind the last one has no tokens.
struct PackedTile {
  i32 begin, tokens, first_row, sequence;
};

SINTER_DEVICE i32 bound_within(i64 bound, i32 least, i32 most) {
  return bound < least ? least : bound > most ? most : static_cast<i32>(bound);
}

/// Tile number `tile` of those that the sequences need which the kernel takes, in their order. A
/// warp looks for it together: each lane knows how many tiles a sequence has.
template <class Shape, class Bound>
SINTER_DEVICE PackedTile packed_tile(const Bound* bounds, i32 sequences, i32 all, i32 tile) {
  constexpr int kRows = Shape::kRows;
  const i32 lane = threadIdx.x % 32;
  for (i32 first = 0; first < sequences; first += 32) {
    const i32 i = first + lane;
    i32 begin = 0, end = 0;
    if (i < sequences) {
      begin = bound_within(bounds[i], 0, all);
      end = bound_within(bounds[i + 1], begin, all);
    }
    const i32 rows = (end - begin) * Shape::kGroup;
    const bool is_taken =
        rows >= Shape::kLeastRows && (Shape::kMostRows == 0 || rows <= Shape::kMostRows);
    const i32 own = is_taken ? (rows + kRows - 1) / kRows : 0;
    i32 before = own;  // with its own
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const i32 other = __shfl_up_sync(0xffffffffu, before, distance);
      if (lane >= distance) before += other;
    }
    const i32 tiles = __shfl_sync(0xffffffffu, before, 31);
    if (tile < tiles) {
      // From that sequence on all end behind the tile.
      const u32 in_front = ~__ballot_sync(0xffffffffu, before > tile);
      const int found = 32 - __clz(static_cast<int>(in_front));
      const i32 inside = tile - (before - own);
      return {__shfl_sync(0xffffffffu, begin, found), __shfl_sync(0xffffffffu, end - begin, found),
              __shfl_sync(0xffffffffu, inside, found) * kRows, first + found};
    }
    tile -= tiles;
  }
  return {0, 0, 0, 0};
}

/// The share that tile number `tile` of `tiles` has of the rows in no sequence, of `all` rows.
template <class Bound>
SINTER_DEVICE SpareRows spare_rows(const Bound* bounds, i32 sequences, i32 all, i32 begin, i32 tile,
                                   i32 tiles) {
  const i32 front = bound_within(bounds[0], 0, all);
  const i32 end = bound_within(bounds[sequences], front, all);
  return {begin, front, end - front, tile, front + all - end, tiles};
}

/// Writes zeros to them; `thread` of kThreads that do so.
template <int kThreads, int kGroup, class Problem>
SINTER_DEVICE void clear_spare_rows(const Problem& p, int thread) {
  const SpareRows& spare = p.spare;
  for (i32 i = spare.first * kGroup; i < spare.count * kGroup;
       i = i % kGroup + 1 < kGroup ? i + 1 : (i / kGroup + spare.step) * kGroup) {
    const i32 token = (i / kGroup < spare.front ? i / kGroup : i / kGroup + spare.packed);
    // Not result_at(): the token may lie in front of the problem's first.
    i64 row = (token - spare.begin) * p.y_stride;
    if constexpr (kGroup > 1) row += i % kGroup * p.y_member;
    for (int column = thread; column < Problem::kValueHead; column += kThreads)
      if constexpr (sizeof(*p.y) == 1)
        *reinterpret_cast<u8*>(p.y + row + column) = static_cast<u8>(static_cast<i32>(p.y_zero));
      else
        p.y[row + column].bits = 0;
  }
}
