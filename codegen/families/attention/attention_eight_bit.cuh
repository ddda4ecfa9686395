// SPDX-License-Identifier: Apache-2.0
// Attention with 8-bit (e4m3) queries, keys and values by warpgroups (sm_90a). 8-bit wgmma needs
// K-major operands: values come transposed. The score accumulators of one MMA become the A operand
// of the next without lane exchange, as rows of keys are permuted when copied
// (EightBitShape::key_of).
#pragma once

#include "attention_warpgroups.cuh"
#include "eight_bit_warpgroup.cuh"

/// An AttentionShape with 8-bit operands; T is the result's type, or the type before rounding.
/// kPromoted: adds each tile's PV matmul to float32 registers; otherwise sums stay in the tensor
/// cores' accumulators (about 14 bits).
template <class Shape, class Operand, bool kPromoted_>
struct EightBitShape : Shape {
  typedef Operand Query;
  typedef Operand Key;
  static constexpr bool kEightBit = true, kScaled = false, kPromoted = kPromoted_;
  /// Weights are 2^x with x <= 8, to use the range of e4m3; equals kWeightUnit of the reference.
  static constexpr float kWeightExponent = 8;
  static_assert(Shape::kHead % 16 == 0 && Shape::kHead <= 128, "units of 16 bytes, a row of 128");
  static_assert(Shape::kValueHead % 16 == 0 && Shape::kValueHead <= 256 && Shape::kVector == 16,
                "as many columns as products have");
  static_assert(!Shape::kPacked && !Shape::kLimited, "whole sequences");

  /// The key of a tile whose scores are column 8 j + t (or + 1), t even. Within 16 keys each lane
  /// of a quad has four consecutive keys, the layout of the next MMA's A operand.
  SINTER_DEVICE static constexpr int key_of(int j, int t) { return j / 2 * 16 + t * 2 + j % 2 * 2; }
};

#ifdef SINTER_WARPGROUPS

/// Copies by the producer warps, in units of 16 bytes, as if elements had 16 bits.
template <class Shape, class Pipeline, class ProblemOf>
SINTER_DEVICE void copy_byte_tiles(const Pipeline& pipeline, u32 items, ProblemOf problem_of) {
  typedef typename Shape::T T;
  typedef AttentionProblem<Shape> Problem;
  constexpr int kUnits = Shape::kHead / 16;
  const int thread = static_cast<int>(threadIdx.x) - Shape::kThreads;
  const auto halves = [](const auto* from) { return reinterpret_cast<const T*>(from); };
  copy_tiles<Shape>(
      pipeline, items, problem_of,
      [&](T* tile, const Problem& p, MBarrier& full) {
        copy_tile_columns<Shape::kRows, kUnits, 128>(tile, halves(p.q), p.q_stride / 2, p.first_row,
                                                     p.rows, thread);
        full.arrive_with_copies();
      },
      [&](T* tile, const Problem& p, i32 key0, MBarrier& full) {
        copy_tile_columns<Pipeline::kTileKeys, kUnits, 128>(
            tile, halves(p.k), p.k_stride / 2, key0, p.keys, thread,
            [](int row) { return Shape::key_of(row / 8, row % 8 / 2 * 2) + row % 2; });
        full.arrive_with_copies();
      },
      [&](T* tile, const Problem& p, i32 key0, MBarrier& full) {
        // A unit has 16 keys; keys past the last are zero, and so are whole units of them.
        constexpr int kAcross = Pipeline::kTileKeys / 16;
        const bool exists = key0 + thread % kAcross * 16 < p.keys;
        copy_tile_columns<Shape::kValueHead, kAcross, 128>(
            tile, halves(p.v) + (exists ? key0 / 2 : 0), p.v_stride / 2, 0,
            exists ? Shape::kValueHead : 0, thread);
        full.arrive_with_copies();
      });
}

/// Work of a consumer warp: WarpgroupRows for 8-bit operands. Queries stay in shared memory. A
/// copied tile has one or more tiles of Shape::kKeys keys.
template <class Shape, class Pipeline>
struct EightBitRows {
  typedef AttentionRows<Shape> Rows;
  typedef AttentionProblem<Shape> Problem;
  typedef typename Shape::Key Key;
  static constexpr int kKeys = Shape::kKeys, kGroups = Pipeline::kGroups,
                       kStages = Pipeline::kStages, kParts = Pipeline::kTileKeys / kKeys;
  static constexpr bool kPromoted = Shape::kPromoted;
  static constexpr int kOutTiles = Shape::kOutTiles;

  const Pipeline& pipeline;
  int lane, warp;
  PipelineState<kStages> at;  // stage of the tile whose values come next
  int part = 0;               // of that tile
  PipelineState<Pipeline::kQueries> query;
  Rows rows;
  float s[1][Shape::kKeyTiles][4], shrink[1][2];
  float products[kPromoted ? kOutTiles : 1][4];  // PV accumulators of one tile
  u32 weights[kKeys / 32][4];
  MaskTile<Shape> mask_tile;

  SINTER_DEVICE void release(MBarrier& barrier) const {
    if (lane == 0) barrier.arrive();
  }
  SINTER_DEVICE void start_scores(PipelineState<kStages> state, int of) {
    const auto* const keys =
        reinterpret_cast<const Key*>(pipeline.keys + state.stage * Pipeline::kKeyTile) +
        of * kKeys * 128;
    // Warp-uniform: the group's index.
    const auto* const own =
        reinterpret_cast<const Key*>(pipeline.queries + query.stage * Pipeline::kQueryTile) +
        __shfl_sync(0xffffffffu, warp / 4, 0) * 64 * 128;
    warpgroup_arrive();
#pragma unroll
    for (int k = 0; k < Shape::kHead; k += 32)
      WarpgroupProduct<Key, Key>::template start<kKeys, false>(s[0], own, keys, k, k > 0);
    warpgroup_commit();
  }
  SINTER_DEVICE void start_values() {
    const auto* const values =
        reinterpret_cast<const Key*>(pipeline.values + at.stage * Pipeline::kValueTile);
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < kKeys / 32; ++step) {
      if constexpr (kPromoted)
        wgmma_from_registers(products, weights[step], values, part * kKeys + step * 32, step > 0);
      else
        wgmma_from_registers(rows.y[0], weights[step], values, part * kKeys + step * 32, true);
    }
    warpgroup_commit();
  }
  template <int kUnderWay>
  SINTER_DEVICE void finish_scores(PipelineState<kStages> state, int of) {
    warpgroup_wait<kUnderWay>();
    settle(s[0]);
    if (of == kParts - 1) release(pipeline.free_keys[state.stage]);
  }
  /// Accumulators so far are relative to the maximum before these weights; `shrink` rescales them
  /// to the new maximum.
  SINTER_DEVICE void finish_values(bool last_of_tile) {
    warpgroup_wait<0>();
    settle(weights);
    if constexpr (kPromoted) {
      settle(products);
#pragma unroll
      for (int j = 0; j < kOutTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          rows.y[0][j][e] = rows.y[0][j][e] * shrink[0][e / 2] + products[j][e];
    } else {
      settle(rows.y[0]);
    }
    if (last_of_tile) release(pipeline.free_values[at.stage]);
  }
  SINTER_DEVICE void pack() {
#pragma unroll
    for (int step = 0; step < kKeys / 32; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const first = s[0][step * 4 + i / 2 * 2] + i % 2 * 2;
        const float* const second = s[0][step * 4 + i / 2 * 2 + 1] + i % 2 * 2;
        weights[step][i] = narrow_pair_saturated<Key>(first[0], first[1]) |
                           narrow_pair_saturated<Key>(second[0], second[1]) << 16;
      }
  }

  /// The first tile: no PV matmul is in flight.
  SINTER_DEVICE void begin(const Problem& p, i32 key0) {
    part = 0;
    pipeline.full_keys[at.stage].wait(at.phase);
    Pipeline::fence_copies();
    start_scores(at, 0);
    rows.load_mask(p, mask_tile, key0);
    finish_scores<0>(at, 0);
    rows.mask(p, s, mask_tile, key0);
    rows.weigh(p, s, shrink);
    pack();
  }
  /// See WarpgroupRows.
  SINTER_DEVICE void advance(const Problem& p, i32 key0) {
    const bool is_last = part == kParts - 1;  // of its tile
    const PipelineState<kStages> next = is_last ? at.next() : at;
    const int next_part = is_last ? 0 : part + 1;
    if (is_last) pipeline.full_keys[next.stage].wait(next.phase);
    if (part == 0) pipeline.full_values[at.stage].wait(at.phase);
    Pipeline::fence_copies();
    if constexpr (kGroups > 1) named_barrier_sync(warp / 4);
    start_scores(next, next_part);
    start_values();
    if constexpr (kGroups > 1) named_barrier_arrive((warp / 4 + 1) % kGroups);
    rows.load_mask(p, mask_tile, key0);
    finish_scores<1>(next, next_part);
    rows.mask(p, s, mask_tile, key0);
    finish_values(is_last);
    rows.weigh(p, s, shrink);
    if constexpr (!kPromoted) rows.rescale(shrink);
    pack();
    at = next;
    part = next_part;
  }
  /// The last values. If a part of the tile was not needed, this also releases the keys.
  SINTER_DEVICE void end() {
    if (part == 0) pipeline.full_values[at.stage].wait(at.phase);
    Pipeline::fence_copies();
    start_values();
    finish_values(true);
    if (part != kParts - 1) release(pipeline.free_keys[at.stage]);
    at = at.next();
  }

  SINTER_DEVICE void attend(const Problem& p) {
    const i32 keys = end_of_keys(p);
    rows.clear(p.first_row + warp * 16, lane);
    if (keys > 0) {
      pipeline.full_queries[query.stage].wait(query.phase);
      begin(p, 0);
      for (i32 key0 = kKeys; key0 < keys; key0 += kKeys) advance(p, key0);
      release(pipeline.free_queries[query.stage]);
      query = query.next();
      end();
    }
    rows.store_tiles(p);
  }
};

/// attend_by_warpgroups for an EightBitShape.
template <class Shape, int kStages, int kQueries, class ProblemOf>
SINTER_DEVICE void attend_in_eight_bits(u32 items, ProblemOf problem_of) {
  typedef AttentionPipeline<Shape, kStages, kQueries> Pipeline;
  SINTER_DYNAMIC_SHARED(shared);
  const Pipeline pipeline(shared);
  const int warp = threadIdx.x / 32;
  if (warp >= Shape::kRowWarps) {
    set_registers<Pipeline::kProducerRegisters, false>();
    copy_byte_tiles<Shape>(pipeline, items, problem_of);
  } else {
    set_registers<Pipeline::kConsumerRegisters, true>();
    if (Pipeline::kGroups > 1 && warp / 4 == Pipeline::kGroups - 1) named_barrier_arrive(0);
    EightBitRows<Shape, Pipeline> rows{pipeline, static_cast<int>(threadIdx.x % 32), warp};
    visit_items<Shape>(items, problem_of,
                       [&](const AttentionProblem<Shape>& p) { rows.attend(p); });
  }
}

#endif  // SINTER_WARPGROUPS
