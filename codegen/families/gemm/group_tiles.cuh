// SPDX-License-Identifier: Apache-2.0
// The row tiles of a grouped matmul. Rows are sorted by group, and no tile has rows of two.
#pragma once

#include "scalar.cuh"

/// Rows of a tile, and the matrix that multiplies them. Without a matrix they are zero.
struct GroupRows {
  i32 first, end;
  u32 matrix;
  bool has_matrix;
};

/// How the tiles of kGroups groups follow each other, in shared memory. Rows in front of the first
/// group and behind the last have tiles, too.
template <int kGroups>
struct GroupTiles {
  static constexpr int kSegments = kGroups + 2;
  i32 tiles[kSegments + 1];  // in front of each segment, and of all
  i32 rows[kSegments + 1];
  i32 tile_rows;

  /// The first row of segment `s`: any offsets divide rows 0 .. count - 1.
  SINTER_DEVICE static i32 first_of(const i32* offsets, int s, i32 count) {
    if (s == 0) return 0;
    if (s > kGroups + 1) return count;
    return minimum(maximum(offsets[s - 1], 0), count);
  }

  /// Counts tiles of `each` rows; all threads of the block call it. `offsets`: the first row of
  /// each group, and the end of the last; ascending.
  SINTER_DEVICE void count(const i32* offsets, i32 row_count, i32 each) {
    const int lane = static_cast<int>(threadIdx.x);
    if (lane < 32) {
      if (lane == 0) tile_rows = each;
      i32 before = 0;
      for (int base = 0; base <= kSegments; base += 32) {
        const int s = base + lane;
        const bool is_there = s < kSegments;
        i32 first = is_there ? first_of(offsets, s, row_count) : row_count;
        i32 end = is_there ? first_of(offsets, s + 1, row_count) : row_count;
        if (end < first) end = first;
        const i32 own = (end - first + each - 1) / each;
        i32 sum = own;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
          const i32 other = __shfl_up_sync(0xffffffffu, sum, step);
          if (lane >= step) sum += other;
        }
        if (s <= kSegments) {
          tiles[s] = before + sum - own;
          rows[s] = first;
        }
        before += __shfl_sync(0xffffffffu, sum, 31);
      }
    }
    __syncthreads();
  }

  /// The rows of tile `tile`; no rows if there are fewer tiles. Any thread may call it.
  SINTER_DEVICE GroupRows find(i32 tile) const {
    if (tile >= tiles[kSegments]) return {rows[kSegments], rows[kSegments], 0, false};
    int low = 0, high = kSegments;  // tiles[low] <= tile < tiles[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (tiles[middle] <= tile)
        low = middle;
      else
        high = middle;
    }
    const i32 first = rows[low] + (tile - tiles[low]) * tile_rows;
    const bool has_matrix = low >= 1 && low <= kGroups;
    return {first, minimum(first + tile_rows, rows[low + 1]),
            static_cast<u32>(has_matrix ? low - 1 : 0), has_matrix};
  }
};
