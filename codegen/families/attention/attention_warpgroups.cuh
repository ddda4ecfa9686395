// SPDX-License-Identifier: Apache-2.0
// Attention by warpgroups (sm_90a). TMA or four producer warps copy queries, keys and values to
// shared memory; consumer warpgroups compute 64 rows each. They alternate on the tensor cores:
// one computes softmax while another runs MMAs (Shah et al. 2024, FlashAttention-3). Blocks
// process several items (rows of one head): the next item's tiles arrive while the result is
// stored.
#pragma once

#include "attention_tile_copies.cuh"

#ifdef SINTER_WARPGROUPS

/// The work of a consumer warp.
template <class Shape, class Pipeline>
struct WarpgroupRows {
  typedef AttentionRows<Shape> Rows;
  typedef AttentionProblem<Shape> Problem;
  static constexpr int kKeys = Shape::kKeys, kGroups = Pipeline::kGroups,
                       kStages = Pipeline::kStages;
  static constexpr bool kQueriesStay = Pipeline::kQueriesStay;

  const Pipeline& pipeline;
  int lane, warp;
  PipelineState<kStages> at;  // stage of the tile whose values come next
  PipelineState<Pipeline::kQueries> query;
  Rows rows;
  float s[1][Shape::kKeyTiles][4], shrink[1][2];
  u32 weights[kKeys / 16][4];
  MaskTile<Shape> mask_tile;

  SINTER_DEVICE void release(MBarrier& barrier) const {
    if (lane == 0) barrier.arrive();
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
  SINTER_DEVICE void start_scores(PipelineState<kStages> state) {
    const auto* const keys = pipeline.keys + state.stage * Pipeline::kKeyTile;
    // Warp-uniform: the group's index.
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
  SINTER_DEVICE void finish_scores(PipelineState<kStages> state) {
    warpgroup_wait<kUnderWay>();
    settle(s[0]);
    release(pipeline.free_keys[state.stage]);
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

  /// The first tile: no PV matmul is in flight.
  SINTER_DEVICE void begin(const Problem& p, i32 key0) {
    pipeline.full_keys[at.stage].wait(at.phase);
    Pipeline::fence_copies();
    start_scores(at);
    rows.load_mask(p, mask_tile, key0);
    finish_scores<0>(at);
    // Not directly after the register loads: they may be in flight when the barrier is signalled,
    // and zero-filled rows could overwrite the tile before they have read it.
    if constexpr (!kQueriesStay) release_queries();
    rows.mask(p, s, mask_tile, key0);
    rows.weigh(p, s, shrink);
    pack();
  }
  /// Starts the scores of the next tile and the PV matmul of the previous one, then the softmax of
  /// the next. Another group uses the tensor cores meanwhile; y is rescaled between the
  /// exponentials.
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

  /// Processes all items that the producer warps pass on.
  template <class ProblemOf>
  SINTER_DEVICE void attend_found(const ProblemOf& problem_of) {
    for (PipelineState<2> state;; state = state.next()) {
      pipeline.full_items[state.stage].wait(state.phase);
      const FoundItem item = pipeline.items[state.stage];
      __syncwarp();
      release(pipeline.free_items[state.stage]);
      if (item.number < 0) return;
      Problem p = problem_of(static_cast<u32>(item.number), &item.tile);
      p.keys = item.keys;
      attend(p);
    }
  }
};

/// Processes `items` items by any number of blocks of Pipeline::kThreads threads. problem_of(i)
/// returns an item's problem: rows [first_row, first_row + kRows) of one head.
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
