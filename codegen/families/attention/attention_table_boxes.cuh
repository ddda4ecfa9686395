// SPDX-License-Identifier: Apache-2.0
// Blocks of a paged cache copied by TMA: one copy for the rows of a block and 64 columns, at the
// row from the table.
#pragma once

#include "attention_problem.cuh"
#include "tensor_map.cuh"

#ifdef SINTER_WARPGROUPS

/// TMA descriptors of the keys and values of a paged cache; see AttentionMaps. Warps copy the
/// queries.
template <int kRank_>
struct PagedMaps {
  static constexpr bool kMapped = false, kBoxes = true;
  static constexpr int kRank = kRank_;
  const TensorMap *k, *v;
  u32 shared_k, shared_v;
};

/// Copies the tiles of keys, or of values, by one warp; each lane issues one box or more.
template <class Shape, int kWidth>
struct TableBoxes {
  typedef typename Shape::T T;
  typedef AttentionProblem<Shape> Problem;
  static constexpr int kKeys = Shape::kKeys, kBlock = Shape::kBlock > 0 ? Shape::kBlock : kKeys;
  static constexpr int kRows = kBlock < kKeys ? kBlock : kKeys;  // of a box
  static constexpr int kBlocks = kKeys / kRows, kBoxes = kBlocks * (kWidth / 64);
  static constexpr int kOfLane = (kBoxes + 31) / 32;
  static_assert(kKeys % kRows == 0 && kBlock % kRows == 0 && kRows % 8 == 0 && kWidth % 64 == 0,
                "boxes begin at multiples of 1024 bytes");

  i32 rows[kOfLane];  // first cache row of each of the lane's boxes

  /// Looks up the boxes of the tile at `key0`. Boxes past the last key are outside of the cache.
  SINTER_DEVICE void find(const Problem& p, i32 key0, int lane) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const i32 key = key0 + (lane + i * 32) % kBlocks * kRows;
      rows[i] = key < p.keys ? p.row_of_key(key) : p.cache_rows;
    }
  }

  /// Starts the copy of the tile. Rows of values past the last key become zeros: old data there
  /// may be infinite, and a zero weight would give NaN. For keys, the mask replaces such
  /// scores.
  template <bool kValues, int kRank>
  SINTER_DEVICE void copy(T* tile, const TensorMap& map, u32 shared, const Problem& p, i32 key0,
                          MBarrier& full, int lane) const {
    const i32 left = p.keys - key0;
    // The block of the last key, if it extends past that key.
    const int cut = kValues && left < kKeys && left % kRows != 0 ? left / kRows : -1;
    if (kValues && cut >= 0) {
      const i32 first = p.row_of_key(key0 + cut * kRows);
      constexpr int kUnits = kWidth / 8;
#pragma unroll 4
      for (int i = lane; i < kRows * kUnits; i += 32) {
        const int row = i / kUnits, column = i % kUnits * 8;
        const bool exists = cut * kRows + row < left;
        cp_async<16>(tile + swizzled_place<kKeys>(cut * kRows + row, column),
                     p.v + (exists ? p.row_in_cache(first + row) : 0) * p.v_stride + column,
                     exists);
      }
      cp_async_commit();
      cp_async_wait<0>();
      fence_proxy_async();
    }
    __syncwarp();
    constexpr int kBoxBytes = kRows * 128;
    if (lane == 0)
      full.arrive_and_expect_tx((kBlocks - (cut >= 0 ? 1 : 0)) * (kWidth / 64) * kBoxBytes);
    __syncwarp();
    i32 at[kRank];
#pragma unroll
    for (int d = 2; d < kRank; ++d) at[d] = (shared >> (d - 2)) & 1 ? 0 : p.batch[d - 2];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int box = lane + i * 32, block = box % kBlocks, columns = box / kBlocks;
      if (box >= kBoxes || block == cut) continue;
      at[0] = columns * 64;
      at[1] = rows[i];
      tma_load(tile + columns * kKeys * 64 + block * kRows * 64, map, at, full);
    }
  }
};

#endif  // SINTER_WARPGROUPS
