// SPDX-License-Identifier: Apache-2.0
// Attention by warpgroups: four producer warps copy tiles of queries, keys and values to shared
// memory, or issue TMA copies.
#pragma once

#include "attention_pipeline.cuh"

#ifdef SINTER_WARPGROUPS

/// Producer loop over all items: calls copy_queries(tile, p, full), then copy_keys(tile, p, key0,
/// full) and copy_values for each tile of keys. A copy starts as soon as its stage is free; `full`
/// counts its arrival, and the producer does not wait for it.
template <class Shape, class Pipeline, class ProblemOf, class Queries, class Keys, class Values>
SINTER_DEVICE void copy_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of,
                              Queries copy_queries, Keys copy_keys, Values copy_values) {
  PipelineState<Pipeline::kStages> at{0, 1};  // on the first pass all stages are free
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

/// Copies rows of a paged cache whose blocks are whole tiles, or equal parts of one, by 128
/// threads. Lanes look up all blocks at once, one each: loads cannot be moved across a copy, so
/// that separate look-ups would be serialized.
template <int kWidth, class Shape>
struct BlockCopies {
  typedef typename Shape::T T;
  static constexpr int kKeys = Shape::kKeys, kBlock = Shape::kPaged ? Shape::kBlock : kKeys;
  static constexpr int kUnits = kWidth % 128 == 0 ? 16 : 8;
  static constexpr int kAcross = copy_threads<kKeys, 128>(kUnits), kAtOnce = 128 / kAcross;
  static constexpr int kOfBlock = kBlock < kKeys ? kBlock : kKeys;  // keys of the tile in one block
  static constexpr int kBlocks = kKeys / kOfBlock, kTogether = kBlocks % 2 == 0 ? 2 : 1;
  static constexpr bool kByLanes = kBlocks <= 32 && kWidth % (kUnits * 8) == 0;  // all lanes have
                                                                                 // work
  static constexpr bool kFit = kAcross == kUnits && kOfBlock % kAtOnce == 0 &&
                               kKeys % kOfBlock == 0 && kBlock % kOfBlock == 0;

  SINTER_DEVICE static void copy(T* tile, const AttentionProblem<Shape>& p, const T* from,
                                 i64 stride, i32 key0, int thread) {
    const int row = thread / kAcross, column = thread % kAcross * 8, lane = thread % 32;
    i32 own = 0;
    if (kByLanes && lane < kBlocks) own = p.first_row_at(key0 + lane * kOfBlock);
#pragma unroll
    for (int part = 0; part < kWidth; part += kUnits * 8) {
      if (part + column >= kWidth) break;
      T* const to = tile + swizzled_place<kKeys>(row, part + column);
#pragma unroll 1
      for (int block = 0; block < kBlocks; block += kTogether) {
        i32 first[kTogether];
#pragma unroll
        for (int b = 0; b < kTogether; ++b)
          first[b] = kByLanes ? __shfl_sync(0xffffffffu, own, block + b)
                              : p.first_row_at(key0 + (block + b) * kOfBlock);
#pragma unroll
        for (int b = 0; b < kTogether; ++b)
#pragma unroll
          for (int r = 0; r < kOfBlock; r += kAtOnce) {
            const int offset = (block + b) * kOfBlock + r;
            const bool exists = key0 + offset + row < p.keys;
            const T* const source =
                from + p.row_in_cache(first[b] + r + row) * stride + part + column;
            cp_async<16>(to + offset * 64, exists ? source : from, exists);
          }
      }
    }
  }
};

/// Copies a tile of keys, or of values, by 128 threads. Rows past the last are zeros: a zero weight
/// must not meet NaN or infinity.
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

/// Copies of 8-bit keys and values by the producer warps: while one tile is widened, the next copy
/// is in flight.
template <class Shape, class Pipeline, class ProblemOf, class Queries>
SINTER_DEVICE void copy_widened_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of,
                                      Queries copy_queries, int thread) {
  typedef typename Shape::T T;
  typedef AttentionProblem<Shape> Problem;
  const auto keys = pipeline.widened_keys(thread);
  const auto values = pipeline.widened_values(thread);
  // One commit group for each copy, empty past the last tile.
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

/// Problems of items for the producer warps, with the end of the keys that their rows see. If that
/// needs a search and loads, one thread passes on what it found.
template <class Shape, class Pipeline, class ProblemOf>
struct ProblemsToCopy {
  const Pipeline& pipeline;
  const ProblemOf& problem_of;
  int thread;
  PipelineState<2> state = {0, 1};

  SINTER_DEVICE void hand_on(const FoundItem& item) {
    if (thread != 0) return;
    pipeline.free_items[state.stage].wait(state.phase);
    pipeline.items[state.stage] = item;
    pipeline.full_items[state.stage].arrive();
    state = state.next();
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

/// Copies the queries of an item, by 128 threads.
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

/// Copies by the producer warps.
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

/// TMA copies, issued by the first producer thread.
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

/// One warp copies the boxes of an item's tiles; `at` advances. Looks up the blocks of a tile while
/// the previous one waits for its stage.
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

/// TMA copies of a paged cache: one warp issues those of keys, another those of values.
template <class Shape, class Pipeline, class ProblemOf, int kRank>
SINTER_DEVICE void copy_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of,
                              const PagedMaps<kRank>& maps) {
  const int thread = static_cast<int>(threadIdx.x) - Shape::kThreads, lane = thread % 32;
  PipelineState<Pipeline::kStages> at{0, 1};  // on the first pass all stages are free
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
      copy_boxes<false, Shape, Shape::kHead, Pipeline, kRank>(pipeline.keys, pipeline.full_keys,
                                                              pipeline.free_keys, at, *maps.k,
                                                              maps.shared_k, p, lane);
    else if (thread / 32 == 1)
      copy_boxes<true, Shape, Shape::kValueHead, Pipeline, kRank>(
          pipeline.values, pipeline.full_values, pipeline.free_values, at, *maps.v, maps.shared_v,
          p, lane);
  });
  problems.end();
}

#endif  // SINTER_WARPGROUPS
