// Attention by warpgroups (sm_90a): the copy engine, or four warps, copies queries, keys and values
// into tiles of shared memory, and groups of four warps multiply 64 rows each. Groups have the
// tensor cores in turns: while one weighs the scores of a tile, another multiplies (Shah et al.
// 2024). Blocks take one item, which is some rows of one head, after the other: the next one's
// tiles arrive while the last one's result is stored.
#pragma once

#include "attention.cuh"
#include "attention_table_boxes.cuh"
#include "attention_widened_tiles.cuh"
#include "tensor_map.cuh"

#ifdef SINTER_WARPGROUPS

/// The operands as the copy engine knows them: columns, rows and the batch's dimensions. Of those
/// in shared_q, bits of the batch's dimensions, all share the queries, and so on.
template <int kRank>
struct AttentionMaps {
  static constexpr bool kMapped = true, kBoxes = false;
  const TensorMap *q, *k, *v;
  u32 shared_q, shared_k, shared_v;

  /// Starts to copy a tile of kRows rows from `row` on.
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
/// Operands that warps copy, because a row may see less than the tensor has, or the copy engine
/// does not know as many dimensions.
struct NoMaps {
  static constexpr bool kMapped = false, kBoxes = false;
};

/// An item of paged sequences as it was found; see PackedTile. A number of -1: there are no more.
struct FoundItem {
  PackedTile tile;
  i32 number, keys;
};

/// What a block of attend_by_warpgroups has in shared memory: kQueries tiles of queries, kStages of
/// keys, as many of values, and their barriers. Of several tiles of queries one stays while its
/// scores are computed; a single one is copied to registers. Shape has kRowTiles = 1 and whole
/// groups of row warps.
template <class Shape, int kStages_, int kQueries_ = 1, bool kMapped_ = false, bool kBoxes_ = false>
struct AttentionPipeline {
  typedef typename Shape::T T;
  static constexpr bool kMapped = kMapped_;  // by the copy engine, which one thread tells
  static constexpr bool kBoxes = kBoxes_;    // so are keys and values, of which it is told by warps
  static constexpr int kStages = kStages_, kQueries = kQueries_;
  // Tiles of elements of 8 bits are those of half as many of 16. Of values they have columns of 128
  // keys, and one row for each of a head.
  static constexpr bool kBytes = Shape::kEightBit;
  static constexpr int kTileKeys = kBytes ? 128 : Shape::kKeys,
                       kHead = kBytes ? Shape::kHead / 2 : Shape::kHead;
  static constexpr int kQueryTile = Shape::kRows * tile_width(kHead),
                       kKeyTile = kTileKeys * tile_width(kHead),
                       kValueTile = kBytes ? Shape::kValueHead * kTileKeys / 2
                                           : Shape::kKeys * tile_width(Shape::kValueHead);
  static constexpr int kTileBytes = (kQueries * kQueryTile + kStages * (kKeyTile + kValueTile)) * 2;
  typedef WidenedTile<Shape, Shape::kHead> WidenedKeys;
  typedef WidenedTile<Shape, Shape::kValueHead> WidenedValues;
  // Items that go from the warps that copy, which look them up, to those that multiply.
  static constexpr int kItems = Shape::kPaged ? 2 : 0;
  static constexpr int kBarrierBytes = (2 * kQueries + 4 * kStages) * 16 + kItems * 64,
                       kWidenedBytes =
                           Shape::kScaled ? WidenedKeys::kBytes + WidenedValues::kBytes : 0;
  // Tiles begin at multiples of 1024 bytes.
  static constexpr int kSharedBytes = 1024 + kTileBytes + kBarrierBytes + kWidenedBytes;
  static constexpr int kThreads = Shape::kThreads + 128;
  // What 65536 registers give, in steps of 8: 128 threads that copy, the others multiply. Two
  // blocks of one group fit a multiprocessor.
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
  /// Where a thread that copies has rows of 8 bits on their way.
  SINTER_DEVICE WidenedKeys widened_keys(int thread) const {
    return {reinterpret_cast<unsigned char*>(full_queries) + kBarrierBytes, thread};
  }
  SINTER_DEVICE WidenedValues widened_values(int thread) const {
    return {widened_keys(thread).memory + WidenedKeys::kBytes, thread};
  }
  /// What warps have copied is seen by the tensor cores: by who waited for it.
  SINTER_DEVICE static void fence_copies() {
    if constexpr (!kMapped && !kBoxes) fence_proxy_async();
  }
};

/// Calls visit(problem_of(item)) for the block's items. Those of odd turns go to the blocks
/// in the reverse order, so that whoever had the longest gets the shortest.
template <class Shape, class ProblemOf, class Visit>
SINTER_DEVICE void visit_items(u32 items, ProblemOf problem_of, Visit visit) {
  for (u32 begin = 0, turn = 0; begin < items; begin += gridDim.x, ++turn) {
    const u32 item = begin + (turn % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    if (!Shape::kLongFirst && item >= items) continue;
    const AttentionProblem<Shape> p = problem_of(item);
    // See causal_item and packed_tile. Items of later turns are behind the last tile, too.
    if ((Shape::kLongFirst || Shape::kPacked) && p.first_row >= p.rows) {
      if (Shape::kPacked && !Shape::kClearsSpare) break;
      continue;
    }
    visit(p);
  }
}

/// Calls copy_queries(tile, p, full), then copy_keys(tile, p, key0, full) and copy_values for each
/// tile of keys, of all items: a tile goes out as soon as its place is free, and `full` counts its
/// arrival, without anybody waiting for that here.
template <class Shape, class Pipeline, class ProblemOf, class Queries, class Keys, class Values>
SINTER_DEVICE void copy_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of,
                              Queries copy_queries, Keys copy_keys, Values copy_values) {
  PipelineState<Pipeline::kStages> at{0, 1};  // the first time around all places are free
  PipelineState<Pipeline::kQueries> query{0, 1};
  visit_items<Shape>(items, problem_of, [&](const AttentionProblem<Shape>& p) {
    const i32 end = end_of_keys(p);
    const i32 first_key = first_tile_of_keys(p);
    if (end <= first_key) return;
    pipeline.free_queries[query.stage].wait(query.phase);
    copy_queries(pipeline.queries + query.stage * Pipeline::kQueryTile, p,
                 pipeline.full_queries[query.stage]);
    query = query.next();
    for (i32 key0 = first_key; key0 < end; key0 += Pipeline::kTileKeys, at = at.next()) {
      pipeline.free_keys[at.stage].wait(at.phase);
      copy_keys(pipeline.keys + at.stage * Pipeline::kKeyTile, p, key0,
                pipeline.full_keys[at.stage]);
      pipeline.free_values[at.stage].wait(at.phase);
      copy_values(pipeline.values + at.stage * Pipeline::kValueTile, p, key0,
                  pipeline.full_values[at.stage]);
    }
  });
}

/// Rows of a paged cache whose blocks are whole tiles, or a whole part of one, by 128 threads: each
/// block is looked up once, two at a time, as nothing that is read goes past a copy.
template <int kWidth, class Shape>
struct BlockCopies {
  typedef typename Shape::T T;
  static constexpr int kKeys = Shape::kKeys, kBlock = Shape::kPaged ? Shape::kBlock : kKeys;
  static constexpr int kUnits = kWidth % 128 == 0 ? 16 : 8;
  static constexpr int kAcross = copy_threads<kKeys, 128>(kUnits), kAtOnce = 128 / kAcross;
  static constexpr int kOfBlock = kBlock < kKeys ? kBlock : kKeys;  // of the tile's keys
  static constexpr int kBlocks = kKeys / kOfBlock, kTogether = kBlocks % 2 == 0 ? 2 : 1;
  static constexpr bool kFit = kAcross == kUnits && kOfBlock % kAtOnce == 0 &&
                               kKeys % kOfBlock == 0 && kBlock % kOfBlock == 0;

  SINTER_DEVICE static void copy(T* tile, const AttentionProblem<Shape>& p, const T* from,
                                 i64 stride, i32 key0, int thread) {
    const int row = thread / kAcross, column = thread % kAcross * 8;
#pragma unroll
    for (int part = 0; part < kWidth; part += kUnits * 8) {
      if (part + column >= kWidth) break;
      T* const to = tile + swizzled_place<kKeys>(row, part + column);
#pragma unroll 1
      for (int block = 0; block < kBlocks; block += kTogether) {
        i32 first[kTogether];
#pragma unroll
        for (int b = 0; b < kTogether; ++b)
          first[b] = p.first_row_at(key0 + (block + b) * kOfBlock);
#pragma unroll
        for (int b = 0; b < kTogether; ++b)
#pragma unroll
          for (int r = 0; r < kOfBlock; r += kAtOnce) {
            const int place = (block + b) * kOfBlock + r;
            const bool exists = key0 + place + row < p.keys;
            const T* const source =
                from + p.row_in_cache(first[b] + r + row) * stride + part + column;
            cp_async<16>(to + place * 64, exists ? source : from, exists);
          }
      }
    }
  }
};

/// A tile of rows of keys, or of values, by 128 threads; zeros behind the last one, so that weights
/// of zero meet numbers.
template <int kWidth, class Shape>
SINTER_DEVICE void copy_keys_of(typename Shape::T* tile, const AttentionProblem<Shape>& p,
                                const typename Shape::T* from, i64 stride, i32 key0, int thread) {
  typedef BlockCopies<kWidth, Shape> Copies;
  if constexpr (Shape::kPaged && Copies::kFit)
    Copies::copy(tile, p, from, stride, key0, thread);
  else if constexpr (Shape::kPaged)
    copy_tile_of_rows<Shape::kKeys, kWidth, 128>(tile, from, key0, p.keys, thread, [&](i32 key) {
      return from + p.row_of_key(key) * stride;
    });
  else
    copy_tile_rows<Shape::kKeys, kWidth, 128>(tile, from, stride, key0, p.keys, thread);
}

/// Keys and values of 8 bits by the warps that copy: while a tile is widened, the next one of
/// values or of keys is on its way.
template <class Shape, class Pipeline, class ProblemOf, class Queries>
SINTER_DEVICE void copy_widened_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of,
                                      Queries copy_queries, int thread) {
  typedef typename Shape::T T;
  typedef AttentionProblem<Shape> Problem;
  const auto keys = pipeline.widened_keys(thread);
  const auto values = pipeline.widened_values(thread);
  // A group of copies each, of no rows behind the last tile.
  const auto request_keys = [&](const Problem& p, i32 key0) {
    if (key0 < end_of_keys(p))
      keys.request(p.k, p.k_stride, p.key_scale, p.key_scale_stride, key0, p.keys,
                   [&](i32 key) { return p.row_of_key(key); });
    cp_async_commit();
  };
  const auto request_values = [&](const Problem& p, i32 key0) {
    if (key0 < end_of_keys(p))
      values.request(p.v, p.v_stride, p.value_scale, p.value_scale_stride, key0, p.keys,
                     [&](i32 key) { return p.row_of_key(key); });
    cp_async_commit();
  };
  const auto hand_over = [](MBarrier& full) {
    fence_proxy_async();
    full.arrive();
  };
  copy_tiles<Shape>(
      pipeline, items, problem_of,
      [&](T* tile, const Problem& p, MBarrier& full) {
        copy_queries(tile, p, full);
        request_keys(p, first_tile_of_keys(p));
        request_values(p, first_tile_of_keys(p));
      },
      [&](T* tile, const Problem& p, i32 key0, MBarrier& full) {
        cp_async_wait<1>();
        keys.widen_to(tile);
        hand_over(full);
        request_keys(p, key0 + Shape::kKeys);
      },
      [&](T* tile, const Problem& p, i32 key0, MBarrier& full) {
        cp_async_wait<1>();
        values.widen_to(tile);
        hand_over(full);
        request_values(p, key0 + Shape::kKeys);
      });
}

/// Problems of items as the warps that copy know them, with the end of the keys that their rows see.
/// Where that takes a search and loads, one of the threads hands on what it found.
template <class Shape, class Pipeline, class ProblemOf>
struct ProblemsToCopy {
  const Pipeline& pipeline;
  const ProblemOf& problem_of;
  int thread;
  PipelineState<2> place = {0, 1};

  SINTER_DEVICE void hand_on(const FoundItem& item) {
    if (thread != 0) return;
    pipeline.free_items[place.stage].wait(place.phase);
    pipeline.items[place.stage] = item;
    pipeline.full_items[place.stage].arrive();
    place = place.next();
  }
  SINTER_DEVICE AttentionProblem<Shape> operator()(u32 item) {
    AttentionProblem<Shape> p = problem_of(item);
    if constexpr (Shape::kClearsSpare) clear_spare_rows<128, Shape::kGroup>(p, thread);
    if constexpr (Shape::kLimited) p.keys = end_of_keys(p);
    if (Shape::kPaged && p.first_row < p.rows)
      hand_on({{p.spare.begin, p.rows / Shape::kGroup, p.first_row, p.sequence},
               static_cast<i32>(item),
               p.keys});
    return p;
  }
  SINTER_DEVICE void end() {
    if constexpr (Shape::kPaged) hand_on({{0, 0, 0, 0}, -1, 0});
  }
};

/// The rows of an item's queries, by 128 threads.
template <class Shape>
SINTER_DEVICE void copy_query_rows(typename Shape::T* tile, const AttentionProblem<Shape>& p,
                                   MBarrier& full, int thread) {
  if constexpr (Shape::kGroup > 1)
    copy_tile_of_rows<Shape::kRows, Shape::kHead, 128>(
        tile, p.q, p.first_row, p.rows, thread, [&](i32 row) { return p.q + p.query_at(row); });
  else
    copy_tile_rows<Shape::kRows, Shape::kHead, 128>(tile, p.q, p.q_stride, p.first_row, p.rows,
                                                    thread);
  full.arrive_with_copies();
}

/// By the warps that copy.
template <class Shape, class Pipeline, class ProblemOf>
SINTER_DEVICE void copy_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of, NoMaps) {
  typedef typename Shape::T T;
  typedef AttentionProblem<Shape> Problem;
  const int thread = static_cast<int>(threadIdx.x) - Shape::kThreads;
  ProblemsToCopy<Shape, Pipeline, ProblemOf> problems{pipeline, problem_of, thread};
  const auto own_problem_of = [&](u32 item) { return problems(item); };
  const auto copy_queries = [&](T* tile, const Problem& p, MBarrier& full) {
    copy_query_rows<Shape>(tile, p, full, thread);
  };
  if constexpr (Shape::kScaled) {
    copy_widened_tiles<Shape>(pipeline, items, own_problem_of, copy_queries, thread);
  } else {
    copy_tiles<Shape>(
        pipeline, items, own_problem_of, copy_queries,
        [&](T* tile, const Problem& p, i32 key0, MBarrier& full) {
          copy_keys_of<Shape::kHead>(tile, p, p.k, p.k_stride, key0, thread);
          full.arrive_with_copies();
        },
        [&](T* tile, const Problem& p, i32 key0, MBarrier& full) {
          copy_keys_of<Shape::kValueHead>(tile, p, p.v, p.v_stride, key0, thread);
          full.arrive_with_copies();
        });
  }
  problems.end();
}

/// By the copy engine, which the first thread of those warps tells.
template <class Shape, class Pipeline, class ProblemOf, int kRank>
SINTER_DEVICE void copy_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of,
                              const AttentionMaps<kRank>& maps) {
  typedef typename Shape::T T;
  typedef AttentionProblem<Shape> Problem;
  typedef AttentionMaps<kRank> Maps;
  if (static_cast<int>(threadIdx.x) != Shape::kThreads) return;
  copy_tiles<Shape>(
      pipeline, items, problem_of,
      [&](T* tile, const Problem& p, MBarrier& full) {
        Maps::template copy<Shape::kRows, Shape::kHead>(tile, *maps.q, maps.shared_q, p,
                                                        p.first_row, full);
      },
      [&](T* tile, const Problem& p, i32 key0, MBarrier& full) {
        Maps::template copy<Shape::kKeys, Shape::kHead>(tile, *maps.k, maps.shared_k, p, key0,
                                                        full);
      },
      [&](T* tile, const Problem& p, i32 key0, MBarrier& full) {
        Maps::template copy<Shape::kKeys, Shape::kValueHead>(tile, *maps.v, maps.shared_v, p, key0,
                                                             full);
      });
}

/// The boxes of an item's tiles by one warp, from `at` on, which goes on behind them. A tile's
/// blocks are looked up while the one before it waits for its place.
template <bool kValues, class Shape, int kWidth, class Pipeline, int kRank>
SINTER_DEVICE void copy_boxes(typename Shape::T* tiles, MBarrier* full, MBarrier* free,
                              PipelineState<Pipeline::kStages>& at, const TensorMap& map,
                              u32 shared, const AttentionProblem<Shape>& p, int lane) {
  typedef TableBoxes<Shape, kWidth> Boxes;
  constexpr int kKeys = Shape::kKeys, kTile = kKeys * tile_width(kWidth);
  Boxes boxes;
  const i32 first_key = first_tile_of_keys(p);
  boxes.find(p, first_key, lane);
  for (i32 key0 = first_key; key0 < p.keys; key0 += kKeys, at = at.next()) {
    Boxes next;
    next.find(p, key0 + kKeys, lane);
    free[at.stage].wait(at.phase);
    boxes.template copy<kValues, kRank>(tiles + at.stage * kTile, map, shared, p, key0,
                                        full[at.stage], lane);
    boxes = next;
  }
}

/// Of a paged cache by the copy engine: one warp tells it of keys, one of values.
template <class Shape, class Pipeline, class ProblemOf, int kRank>
SINTER_DEVICE void copy_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of,
                              const PagedMaps<kRank>& maps) {
  const int thread = static_cast<int>(threadIdx.x) - Shape::kThreads, lane = thread % 32;
  PipelineState<Pipeline::kStages> at{0, 1};  // the first time around all places are free
  PipelineState<Pipeline::kQueries> query{0, 1};
  ProblemsToCopy<Shape, Pipeline, ProblemOf> problems{pipeline, problem_of, thread};
  const auto own_problem_of = [&](u32 item) { return problems(item); };
  visit_items<Shape>(items, own_problem_of, [&](const AttentionProblem<Shape>& p) {
    if (p.keys <= first_tile_of_keys(p)) return;
    pipeline.free_queries[query.stage].wait(query.phase);
    copy_query_rows<Shape>(pipeline.queries + query.stage * Pipeline::kQueryTile, p,
                           pipeline.full_queries[query.stage], thread);
    query = query.next();
    if (thread / 32 == 0)
      copy_boxes<false, Shape, Shape::kHead, Pipeline, kRank>(
          pipeline.keys, pipeline.full_keys, pipeline.free_keys, at, *maps.k, maps.shared_k, p,
          lane);
    else if (thread / 32 == 1)
      copy_boxes<true, Shape, Shape::kValueHead, Pipeline, kRank>(
          pipeline.values, pipeline.full_values, pipeline.free_values, at, *maps.v, maps.shared_v,
          p, lane);
  });
  problems.end();
}

/// What a warp that multiplies does.
template <class Shape, class Pipeline>
struct WarpgroupRows {
  typedef AttentionRows<Shape> Rows;
  typedef AttentionProblem<Shape> Problem;
  static constexpr int kKeys = Shape::kKeys, kGroups = Pipeline::kGroups,
                       kStages = Pipeline::kStages;
  static constexpr bool kQueriesStay = Pipeline::kQueries > 1;

  const Pipeline& pipeline;
  int lane, warp;
  PipelineState<kStages> at;  // the tile whose values come next
  PipelineState<Pipeline::kQueries> query;
  Rows rows;
  float s[1][Shape::kKeyTiles][4], shrink[1][2];
  u32 weights[kKeys / 16][4];
  MaskTile<Shape> mask_tile;

  SINTER_DEVICE void release(MBarrier& place) const {
    if (lane == 0) place.arrive();
  }
  SINTER_DEVICE void take_queries() {
    pipeline.full_queries[query.stage].wait(query.phase);
    if constexpr (kQueriesStay && Pipeline::kBoxes) fence_proxy_async();
    if constexpr (!kQueriesStay) {
#pragma unroll
      for (int step = 0; step < Shape::kSteps; ++step)
        load_matrix_x4(rows.q[0][step],
                       pipeline.queries + swizzled_place<Shape::kRows>(warp * 16 + lane % 16,
                                                                       step * 16 + lane / 16 * 8));
    }
  }
  SINTER_DEVICE void release_queries() {
    release(pipeline.free_queries[query.stage]);
    query = query.next();
  }
  SINTER_DEVICE void start_scores(PipelineState<kStages> place) {
    const auto* const keys = pipeline.keys + place.stage * Pipeline::kKeyTile;
    // Of the group: a warp agrees about it.
    const auto* const own = pipeline.queries + query.stage * Pipeline::kQueryTile +
                            __shfl_sync(0xffffffffu, warp / 4, 0) * 64 * 64;
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      if constexpr (kQueriesStay)
        wgmma<kKeys, false>(s[0], own + step / 4 * Shape::kRows * 64, keys + step / 4 * kKeys * 64,
                            step % 4 * 16, step > 0);
      else
        wgmma<kKeys, false>(s[0], rows.q[0][step], keys, step * 16, step > 0);
    }
    warpgroup_commit();
  }
  SINTER_DEVICE void start_values() {
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
      wgmma<kKeys, true>(rows.y[0], weights[step],
                         pipeline.values + at.stage * Pipeline::kValueTile, step * 16, true);
    warpgroup_commit();
  }
  template <int kUnderWay>
  SINTER_DEVICE void finish_scores(PipelineState<kStages> place) {
    warpgroup_wait<kUnderWay>();
    settle(s[0]);
    release(pipeline.free_keys[place.stage]);
  }
  SINTER_DEVICE void finish_values() {
    warpgroup_wait<0>();
    settle(rows.y[0]);
    settle(weights);
    release(pipeline.free_values[at.stage]);
  }
  SINTER_DEVICE void pack() {
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) Rows::pack_weights(weights[step], s[0], step);
  }

  /// The first tile: no values are under way.
  SINTER_DEVICE void begin(const Problem& p, i32 key0) {
    pipeline.full_keys[at.stage].wait(at.phase);
    Pipeline::fence_copies();
    start_scores(at);
    rows.load_mask(p, mask_tile, key0);
    finish_scores<0>(at);
    // Not behind the loads to registers: they are under way when a barrier is told, and zeros of
    // rows that do not exist arrive before they have read.
    if constexpr (!kQueriesStay) release_queries();
    rows.mask(p, s, mask_tile, key0);
    rows.weigh(p, s, shrink);
    pack();
  }
  /// The scores of a tile, the values of the one before, and the weights of this one, which wait
  /// for those values: another group multiplies meanwhile, and y shrinks between the exponentials.
  SINTER_DEVICE void advance(const Problem& p, i32 key0) {
    const PipelineState<kStages> next = at.next();
    pipeline.full_keys[next.stage].wait(next.phase);
    pipeline.full_values[at.stage].wait(at.phase);
    Pipeline::fence_copies();
    if constexpr (kGroups > 1) named_barrier_sync(warp / 4);
    start_scores(next);
    start_values();
    if constexpr (kGroups > 1) named_barrier_arrive((warp / 4 + 1) % kGroups);
    rows.load_mask(p, mask_tile, key0);
    finish_scores<1>(next);
    rows.mask(p, s, mask_tile, key0);
    finish_values();
    rows.weigh(p, s, shrink);
    rows.rescale(shrink);
    pack();
    at = next;
  }
  /// The last values.
  SINTER_DEVICE void end() {
    pipeline.full_values[at.stage].wait(at.phase);
    Pipeline::fence_copies();
    start_values();
    finish_values();
    at = at.next();
  }

  SINTER_DEVICE void attend(Problem p) {
    const i32 keys = Shape::kPaged ? p.keys : end_of_keys(p), first_key = first_tile_of_keys(p);
    rows.clear(p.first_row + warp * 16, lane);
    rows.load_ends(p);
    if (keys > first_key) {
      take_queries();
      begin(p, first_key);
      for (i32 key0 = first_key + kKeys; key0 < keys; key0 += kKeys) advance(p, key0);
      if (kQueriesStay) release_queries();
      end();
    }
    rows.store_tiles(p);
  }

  /// All items that the warps that copy hand on.
  template <class ProblemOf>
  SINTER_DEVICE void attend_found(const ProblemOf& problem_of) {
    for (PipelineState<2> place;; place = place.next()) {
      pipeline.full_items[place.stage].wait(place.phase);
      const FoundItem item = pipeline.items[place.stage];
      __syncwarp();
      release(pipeline.free_items[place.stage]);
      if (item.number < 0) return;
      Problem p = problem_of(static_cast<u32>(item.number), &item.tile);
      p.keys = item.keys;
      attend(p);
    }
  }
};

/// `items` pieces of work by blocks of Pipeline::kThreads threads, any number of blocks.
/// problem_of(i) is the problem of an item, which is rows [first_row, first_row + kRows) of one
/// head.
template <class Shape, int kStages, int kQueries, class ProblemOf, class Maps>
SINTER_DEVICE void attend_by_warpgroups(u32 items, ProblemOf problem_of, const Maps& maps) {
  typedef AttentionPipeline<Shape, kStages, kQueries, Maps::kMapped, Maps::kBoxes> Pipeline;
  SINTER_DYNAMIC_SHARED(shared);
  const Pipeline pipeline(shared);
  const int warp = threadIdx.x / 32;
  if (warp >= Shape::kRowWarps) {
    set_registers<Pipeline::kProducerRegisters, false>();
    copy_tiles<Shape>(pipeline, items, problem_of, maps);
  } else {
    set_registers<Pipeline::kConsumerRegisters, true>();
    if (Pipeline::kGroups > 1 && warp / 4 == Pipeline::kGroups - 1) named_barrier_arrive(0);
    WarpgroupRows<Shape, Pipeline> rows{pipeline, static_cast<int>(threadIdx.x % 32), warp};
    if constexpr (Shape::kPaged)
      rows.attend_found(problem_of);
    else
      visit_items<Shape>(items, problem_of,
                         [&](const AttentionProblem<Shape>& p) { rows.attend(p); });
  }
}

#endif  // SINTER_WARPGROUPS
