// Attention by warpgroups (sm_90a): four warps copy queries, keys and values into tiles of shared
// memory, and groups of four multiply 64 rows each. Groups have the tensor cores in
// turns: while one weighs the scores of a tile, another multiplies (Shah et al. 2024). Blocks take
// one item, which is some rows of one head, after the other: the next one's tiles arrive while the
// last one's result is stored.
#pragma once

#include "attention.cuh"
#include "warpgroup.cuh"

#ifdef SINTER_WARPGROUPS

/// What a block of attend_by_warpgroups has in shared memory: kQueries tiles of queries, kStages of
/// keys, as many of values, and their barriers. Of several tiles of queries one stays while its
/// scores are computed; a single one is copied to registers. Shape has kRowTiles = 1 and whole
/// groups of row warps.
template <class Shape, int kStages_, int kQueries_ = 1>
struct AttentionPipeline {
  typedef typename Shape::T T;
  static constexpr int kStages = kStages_, kQueries = kQueries_;
  static constexpr int kQueryTile = Shape::kRows * tile_width(Shape::kHead),
                       kKeyTile = Shape::kKeys * tile_width(Shape::kHead),
                       kValueTile = Shape::kKeys * tile_width(Shape::kValueHead);
  static constexpr int kTileBytes = (kQueries * kQueryTile + kStages * (kKeyTile + kValueTile)) * 2;
  // Tiles begin at multiples of 1024 bytes.
  static constexpr int kSharedBytes = 1024 + kTileBytes + (2 * kQueries + 4 * kStages) * 16;
  static constexpr int kThreads = Shape::kThreads + 128;
  // What 65536 registers give, in steps of 8: 128 threads that copy, the others multiply. Two
  // blocks of one group fit a multiprocessor.
  static constexpr int kGroups = Shape::kRowWarps / 4, kBlocks = kGroups == 1 ? 2 : 1;
  static constexpr int kProducerRegisters = kGroups == 3 ? 32 : 40;
  static constexpr int kConsumerRegisters = kGroups == 3 ? 160 : kGroups == 2 ? 232 : 216;
  static_assert(Shape::kRowTiles == 1 && Shape::kKeyGroups == 1 && Shape::kRowWarps % 4 == 0 &&
                    Shape::kVector == 8,
                "whole warpgroups and rows of 16 bytes");

  T *queries, *keys, *values;
  MBarrier *full_queries, *free_queries, *full_keys, *free_keys, *full_values, *free_values;

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
    if (threadIdx.x == 0) {
      for (int tile = 0; tile < kQueries; ++tile) {
        full_queries[tile].start(128);
        free_queries[tile].start(Shape::kRowWarps);
      }
      for (int stage = 0; stage < kStages; ++stage) {
        full_keys[stage].start(128);
        full_values[stage].start(128);
        free_keys[stage].start(Shape::kRowWarps);
        free_values[stage].start(Shape::kRowWarps);
      }
    }
    __syncthreads();
  }
};

/// Calls visit(problem_of(item)) for the block's items. Those of odd turns go to the blocks
/// in the reverse order, so that whoever had the longest gets the shortest.
template <class Shape, class ProblemOf, class Visit>
SINTER_DEVICE void visit_items(u32 items, ProblemOf problem_of, Visit visit) {
  for (u32 begin = 0, turn = 0; begin < items; begin += gridDim.x, ++turn) {
    const u32 item = begin + (turn % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    if (!Shape::kCausal && item >= items) continue;
    const AttentionProblem<Shape> p = problem_of(item);
    // See causal_item and packed_tile.
    if ((!Shape::kCausal && !Shape::kPacked) || p.first_row < p.rows) visit(p);
  }
}

/// What the warps that copy do: a tile goes out as soon as its place is free, and is announced when
/// it has arrived, without anybody waiting for that here.
template <class Shape, class Pipeline, class ProblemOf>
SINTER_DEVICE void copy_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of) {
  constexpr int kKeys = Shape::kKeys;
  const int thread = static_cast<int>(threadIdx.x) - Shape::kThreads;
  PipelineState<Pipeline::kStages> at{0, 1};  // the first time around all places are free
  PipelineState<Pipeline::kQueries> query{0, 1};
  const auto own_problem_of = [&](u32 item) {
    const AttentionProblem<Shape> p = problem_of(item);
    if constexpr (Shape::kPacked) clear_spare_rows<128>(p, thread);
    return p;
  };
  visit_items<Shape>(items, own_problem_of, [&](const AttentionProblem<Shape>& p) {
    const i32 end = end_of_keys(p);
    if (end == 0) return;
    pipeline.free_queries[query.stage].wait(query.phase);
    copy_tile_rows<Shape::kRows, Shape::kHead, 128>(
        pipeline.queries + query.stage * Pipeline::kQueryTile, p.q, p.q_stride, p.first_row, p.rows,
        thread);
    pipeline.full_queries[query.stage].arrive_with_copies();
    query = query.next();
    for (i32 key0 = 0; key0 < end; key0 += kKeys, at = at.next()) {
      pipeline.free_keys[at.stage].wait(at.phase);
      copy_tile_rows<kKeys, Shape::kHead, 128>(pipeline.keys + at.stage * Pipeline::kKeyTile, p.k,
                                               p.k_stride, key0, p.keys, thread);
      pipeline.full_keys[at.stage].arrive_with_copies();
      pipeline.free_values[at.stage].wait(at.phase);
      copy_tile_rows<kKeys, Shape::kValueHead, 128>(
          pipeline.values + at.stage * Pipeline::kValueTile, p.v, p.v_stride, key0, p.keys, thread);
      pipeline.full_values[at.stage].arrive_with_copies();
    }
  });
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
    if constexpr (!kQueriesStay) {
#pragma unroll
      for (int step = 0; step < Shape::kSteps; ++step)
        load_matrix_x4(rows.q[0][step],
                       pipeline.queries + swizzled_place<Shape::kRows>(warp * 16 + lane % 16,
                                                                       step * 16 + lane / 16 * 8));
      release_queries();
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
  SINTER_DEVICE void begin(const Problem& p) {
    pipeline.full_keys[at.stage].wait(at.phase);
    fence_proxy_async();
    start_scores(at);
    rows.load_mask(p, mask_tile, 0);
    finish_scores<0>(at);
    rows.mask(p, s, mask_tile, 0);
    rows.weigh(p, s, shrink);
    pack();
  }
  /// The scores of a tile, the values of the one before, and the weights of this one, which wait
  /// for those values: another group multiplies meanwhile, and y shrinks between the exponentials.
  SINTER_DEVICE void advance(const Problem& p, i32 key0) {
    const PipelineState<kStages> next = at.next();
    pipeline.full_keys[next.stage].wait(next.phase);
    pipeline.full_values[at.stage].wait(at.phase);
    fence_proxy_async();
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
    fence_proxy_async();
    start_values();
    finish_values();
    at = at.next();
  }

  SINTER_DEVICE void attend(const Problem& p) {
    const i32 keys = end_of_keys(p);
    rows.clear(p.first_row + warp * 16, lane);
    if (keys > 0) {
      take_queries();
      begin(p);
      for (i32 key0 = kKeys; key0 < keys; key0 += kKeys) advance(p, key0);
      if (kQueriesStay) release_queries();
      end();
    }
    rows.store_tiles(p);
  }
};

/// `items` pieces of work by blocks of Pipeline::kThreads threads, any number of blocks.
/// problem_of(i) is the problem of an item, which is rows [first_row, first_row + kRows) of one
/// head.
template <class Shape, int kStages, int kQueries = 1, class ProblemOf>
SINTER_DEVICE void attend_by_warpgroups(u32 items, ProblemOf problem_of) {
  typedef AttentionPipeline<Shape, kStages, kQueries> Pipeline;
  SINTER_DYNAMIC_SHARED(shared);
  const Pipeline pipeline(shared);
  const int warp = threadIdx.x / 32;
  if (warp >= Shape::kRowWarps) {
    set_registers<Pipeline::kProducerRegisters, false>();
    copy_tiles<Shape>(pipeline, items, problem_of);
  } else {
    set_registers<Pipeline::kConsumerRegisters, true>();
    if (Pipeline::kGroups > 1 && warp / 4 == Pipeline::kGroups - 1) named_barrier_arrive(0);
    WarpgroupRows<Shape, Pipeline> rows{pipeline, static_cast<int>(threadIdx.x % 32), warp};
    visit_items<Shape>(items, problem_of,
                       [&](const AttentionProblem<Shape>& p) { rows.attend(p); });
  }
}

#endif  // SINTER_WARPGROUPS
