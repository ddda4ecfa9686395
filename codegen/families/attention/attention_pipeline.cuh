// SPDX-License-Identifier: Apache-2.0
// Attention by warpgroups: the shared memory of a block, the items that it processes, and the
// barriers.
#pragma once

#include "attention.cuh"
#include "attention_table_boxes.cuh"
#include "attention_widened_tiles.cuh"
#include "tensor_map.cuh"

#ifdef SINTER_WARPGROUPS

/// TMA descriptors of the operands, with dimensions columns, rows and batch. shared_q is a bit mask
/// of the batch dimensions in which queries are broadcast; likewise the others.
template <int kRank>
struct AttentionMaps {
  static constexpr bool kMapped = true, kBoxes = false;
  const TensorMap *q, *k, *v;
  u32 shared_q, shared_k, shared_v;

  /// Starts a copy of kRows rows from `row` on.
  template <int kRows, int kWidth, class T, class Problem>
  SINTER_DEVICE static void copy(T* tile, const TensorMap& map, u32 shared, const Problem& p,
                                 i32 row, MBarrier& arrivals) {
    i32 at[kRank];
    at[1] = row;
#pragma unroll
    for (int d = 2; d < kRank; ++d) at[d] = (shared >> (d - 2)) & 1 ? 0 : p.batch[d - 2];
    arrivals.arrive_and_expect_tx(kRows * tile_width(kWidth) * sizeof(T));
#pragma unroll
    for (int column = 0; column < kWidth; column += 64) {
      at[0] = column;
      tma_load(tile + column * kRows, map, at, arrivals);
    }
  }
};
/// Warps copy the operands: a row may see fewer keys than the tensor has, or TMA lacks
/// dimensions.
struct NoMaps {
  static constexpr bool kMapped = false, kBoxes = false;
};

/// An item of paged sequences after its search; see PackedTile. Number -1: no more items.
struct FoundItem {
  PackedTile tile;
  i32 number, keys;
};

/// The shared memory of a block of attend_by_warpgroups(): kQueries tiles of queries, kStages tiles
/// of keys and of values, and their barriers. With several query tiles, or long heads, the queries
/// stay in shared memory during the scores' MMA; else they are copied to registers. Shape has
/// kRowTiles = 1 and whole warpgroups of row warps.
template <class Shape, int kStages_, int kQueries_ = 1, bool kMapped_ = false, bool kBoxes_ = false>
struct AttentionPipeline {
  typedef typename Shape::T T;
  static constexpr bool kMapped = kMapped_;  // one thread issues TMA copies
  static constexpr bool kBoxes = kBoxes_;    // warps issue TMA copies of keys and values
  static constexpr int kStages = kStages_, kQueries = kQueries_;
  // A tile of 8-bit elements has the layout of half as many 16-bit ones. Value tiles are
  // transposed: one row for each column of the head, of 128 keys.
  static constexpr bool kBytes = Shape::kEightBit;
  /// Queries are read from shared memory by each MMA: several tiles, or heads too long for
  /// registers.
  static constexpr bool kQueriesStay = kQueries > 1 || Shape::kHead > 192;
  static constexpr int kTileKeys = kBytes ? 128 : Shape::kKeys,
                       kHead = kBytes ? Shape::kHead / 2 : Shape::kHead;
  static constexpr int kQueryTile = Shape::kRows * tile_width(kHead),
                       kKeyTile = kTileKeys * tile_width(kHead),
                       kValueTile = kBytes ? Shape::kValueHead * kTileKeys / 2
                                           : Shape::kKeys * tile_width(Shape::kValueHead);
  static constexpr int kTileBytes = (kQueries * kQueryTile + kStages * (kKeyTile + kValueTile)) * 2;
  typedef WidenedTile<Shape, Shape::kHead> WidenedKeys;
  typedef WidenedTile<Shape, Shape::kValueHead> WidenedValues;
  // Items that the producer warps look up and pass to the consumers.
  static constexpr int kItems = Shape::kPaged ? 2 : 0;
  static constexpr int kBarrierBytes = (2 * kQueries + 4 * kStages) * 16 + kItems * 64,
                       kWidenedBytes =
                           Shape::kScaled ? WidenedKeys::kBytes + WidenedValues::kBytes : 0;
  // Tiles are aligned to 1024 bytes.
  static constexpr int kSharedBytes = 1024 + kTileBytes + kBarrierBytes + kWidenedBytes;
  static constexpr int kThreads = Shape::kThreads + 128;
  // 65536 registers, in steps of 8: 128 producer threads, the rest consumers. With one consumer
  // group, two blocks fit a multiprocessor.
  static constexpr int kGroups = Shape::kRowWarps / 4, kBlocks = kGroups == 1 ? 2 : 1;
  static constexpr int kProducerRegisters = kGroups == 3 ? 32 : 40;
  static constexpr int kConsumerRegisters = kGroups == 3 ? 160 : kGroups == 2 ? 232 : 216;
  static_assert(Shape::kRowTiles == 1 && Shape::kKeyGroups == 1 && Shape::kRowWarps % 4 == 0 &&
                    Shape::kVector == (Shape::kScaled || kBytes ? 16 : 8) &&
                    kTileKeys % Shape::kKeys == 0,
                "whole warpgroups and rows of 16 bytes");

  T *queries, *keys, *values;
  MBarrier *full_queries, *free_queries, *full_keys, *free_keys, *full_values, *free_values,
      *full_items, *free_items;
  FoundItem* items;

  SINTER_DEVICE explicit AttentionPipeline(unsigned char* shared) {
    const auto address = reinterpret_cast<u64>(shared);
    queries = reinterpret_cast<T*>(shared + (1024 - address % 1024) % 1024);
    keys = queries + kQueries * kQueryTile;
    values = keys + kStages * kKeyTile;
    full_queries = reinterpret_cast<MBarrier*>(values + kStages * kValueTile);
    free_queries = full_queries + kQueries;
    full_keys = free_queries + kQueries;
    free_keys = full_keys + kStages;
    full_values = free_keys + kStages;
    free_values = full_values + kStages;
    full_items = free_values + kStages;
    free_items = full_items + kItems;
    items = reinterpret_cast<FoundItem*>(reinterpret_cast<unsigned char*>(full_queries) +
                                         kBarrierBytes - kItems * 32);
    if constexpr (!kMapped) {
      for (int tile = 0; tile < kQueries; ++tile)
        clear_padding<Shape::kRows, kHead>(queries + tile * kQueryTile, threadIdx.x, kThreads);
      for (int stage = 0; stage < kStages; ++stage)
        clear_padding<kTileKeys, kHead>(keys + stage * kKeyTile, threadIdx.x, kThreads);
    }
    constexpr int kCopying = kMapped ? 1 : 128;
    if (threadIdx.x == 0) {
      for (int tile = 0; tile < kQueries; ++tile) {
        full_queries[tile].start(kCopying);
        free_queries[tile].start(Shape::kRowWarps);
      }
      for (int stage = 0; stage < kStages; ++stage) {
        full_keys[stage].start(kBoxes ? 1 : kCopying);
        full_values[stage].start(kBoxes ? 1 : kCopying);
        free_keys[stage].start(Shape::kRowWarps);
        free_values[stage].start(Shape::kRowWarps);
      }
      for (int item = 0; item < kItems; ++item) {
        full_items[item].start(1);
        free_items[item].start(Shape::kRowWarps);
      }
      if (kMapped || kBoxes) fence_barrier_init();
    }
    __syncthreads();
  }
  /// Where a producer thread stages rows of 8 bits.
  SINTER_DEVICE WidenedKeys widened_keys(int thread) const {
    return {reinterpret_cast<unsigned char*>(full_queries) + kBarrierBytes, thread};
  }
  SINTER_DEVICE WidenedValues widened_values(int thread) const {
    return {widened_keys(thread).memory + WidenedKeys::kBytes, thread};
  }
  /// Makes copies by warps visible to the tensor cores; called by the thread that waited for them.
  SINTER_DEVICE static void fence_copies() {
    if constexpr (!kMapped && !kBoxes) fence_proxy_async();
  }
};

/// Calls visit(problem_of(item)) for the block's items, in serpentine order: odd rounds are
/// reversed, so that the block with the longest item of a round gets the shortest of the next.
template <class Shape, class ProblemOf, class Visit>
SINTER_DEVICE void visit_items(u32 items, ProblemOf problem_of, Visit visit) {
  for (u32 begin = 0, turn = 0; begin < items; begin += gridDim.x, ++turn) {
    const u32 item = begin + (turn % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    if (!Shape::kLongFirst && item >= items) continue;
    const AttentionProblem<Shape> p = problem_of(item);
    // See causal_item() and packed_tile(). Items of later rounds are past the last tile, too.
    if ((Shape::kLongFirst || Shape::kPacked) && p.first_row >= p.rows) {
      if (Shape::kPacked && !Shape::kClearsSpare) break;
      continue;
    }
    visit(p);
  }
}

#endif  // SINTER_WARPGROUPS
