// SPDX-License-Identifier: Apache-2.0
// Packed sequences: assigns tiles of sequences to items, and clears rows that belong to no
// sequence.
#pragma once

#include "attention_problem.cuh"
#include "reduce.cuh"

/// A tile of a sequence. The sequence has tokens [begin, begin + tokens) and kGroup rows for each;
/// the tile's rows begin at first_row. Past the last tile, `tokens` is 0.
struct PackedTile {
  i32 begin, tokens, first_row, sequence;
};

SINTER_DEVICE i32 bound_within(i64 bound, i32 least, i32 most) {
  return bound < least ? least : bound > most ? most : static_cast<i32>(bound);
}

/// Sum over the lanes of a warp; every lane gets it.
SINTER_DEVICE i32 sum_of_warp(i32 x) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  return __reduce_add_sync(0xffffffffu, x);
#else
  return reduce_lanes<Sum, 32>(x);
#endif
}

/// First and end token of sequence `i` among `all` tokens; empty if `i` is out of range.
struct SequenceTokens {
  i32 begin = 0, end = 0;
};
template <class Bound>
SINTER_DEVICE SequenceTokens tokens_of_sequence(const Bound* bounds, i32 sequences, i32 all,
                                                i32 i) {
  SequenceTokens tokens;
  if (i < 0 || i >= sequences) return tokens;
  tokens.begin = bound_within(bounds[i], 0, all);
  tokens.end = bound_within(bounds[i + 1], tokens.begin, all);
  return tokens;
}

/// Tile `tile` of the sequences that this kernel takes, in their order, or from the last tile of
/// the last sequence backwards (Shape::kLastFirst). The warp searches together: each lane counts
/// the tiles of several sequences, 32 apart, and loads all their bounds at once.
template <class Shape, class Bound>
SINTER_DEVICE PackedTile packed_tile(const Bound* bounds, i32 sequences, i32 all, i32 tile) {
  // Blocks of more than 4 warps have many rows: there are few, and they hold accumulators during
  // the search.
  constexpr int kRows = Shape::kRows, kOfLane = Shape::kRowWarps > 4 ? 2 : 8;
  const i32 lane = threadIdx.x % 32;
  const auto sequence_of = [&](i32 i) { return Shape::kLastFirst ? sequences - 1 - i : i; };
  for (i32 first = 0; first < sequences; first += 32 * kOfLane) {
    SequenceTokens tokens[kOfLane];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      tokens[i] = tokens_of_sequence(bounds, sequences, all, sequence_of(first + i * 32 + lane));
    i32 own[kOfLane], tiles[kOfLane];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const i32 rows = (tokens[i].end - tokens[i].begin) * Shape::kGroup;
      const bool is_taken =
          rows >= Shape::kLeastRows && (Shape::kMostRows == 0 || rows <= Shape::kMostRows);
      own[i] = is_taken ? (rows + kRows - 1) / kRows : 0;
      tiles[i] = sum_of_warp(own[i]);
    }
    // The chunk of 32 sequences that contains the tile; -1: it is in a later one.
    int chunk = -1;
    i32 chosen = 0, begin = 0, end = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      if (chunk >= 0) continue;
      if (tile < tiles[i]) {
        chunk = i;
        chosen = own[i];
        begin = tokens[i].begin;
        end = tokens[i].end;
      } else {
        tile -= tiles[i];
      }
    }
    if (chunk < 0) continue;
    i32 before = chosen;  // including its own
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const i32 other = __shfl_up_sync(0xffffffffu, before, distance);
      if (lane >= distance) before += other;
    }
    // From that sequence on, all tile counts end after the tile.
    const u32 in_front = ~__ballot_sync(0xffffffffu, before > tile);
    const int found = 32 - __clz(static_cast<int>(in_front));
    const i32 inside = Shape::kLastFirst ? before - 1 - tile : tile - (before - chosen);
    return {__shfl_sync(0xffffffffu, begin, found), __shfl_sync(0xffffffffu, end - begin, found),
            __shfl_sync(0xffffffffu, inside, found) * kRows,
            sequence_of(first + chunk * 32 + found)};
  }
  return {0, 0, 0, 0};
}

/// The tokens of all sequences together, within `all`.
template <class Bound>
SINTER_DEVICE SequenceTokens tokens_of_all(const Bound* bounds, i32 sequences, i32 all) {
  SequenceTokens tokens;
  tokens.begin = bound_within(bounds[0], 0, all);
  tokens.end = bound_within(bounds[sequences], tokens.begin, all);
  return tokens;
}
/// The part of the padding rows (rows of no sequence, of `all` rows) that tile `tile` of `tiles`
/// clears.
SINTER_DEVICE SpareRows spare_rows(const SequenceTokens& packed, i32 all, i32 begin, i32 tile,
                                   i32 tiles) {
  return {begin, packed.begin, packed.end - packed.begin, tile, packed.begin + all - packed.end,
          tiles};
}

/// Writes zeros to these rows; by kThreads threads, of which this is `thread`.
template <int kThreads, int kGroup, class Problem>
SINTER_DEVICE void clear_spare_rows(const Problem& p, int thread) {
  const SpareRows& spare = p.spare;
  for (i32 i = spare.first * kGroup; i < spare.count * kGroup;
       i = i % kGroup + 1 < kGroup ? i + 1 : (i / kGroup + spare.step) * kGroup) {
    const i32 token = (i / kGroup < spare.front ? i / kGroup : i / kGroup + spare.packed);
    // Not result_at(): the token may precede the problem's first.
    i64 row = (token - spare.begin) * p.y_stride;
    if constexpr (kGroup > 1) row += i % kGroup * p.y_member;
    for (int column = thread; column < Problem::kValueHead; column += kThreads)
      if constexpr (sizeof(*p.y) == 1)
        *reinterpret_cast<u8*>(p.y + row + column) = static_cast<u8>(static_cast<i32>(p.y_zero));
      else
        p.y[row + column].bits = 0;
  }
}
