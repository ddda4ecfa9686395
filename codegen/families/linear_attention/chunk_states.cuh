// SPDX-License-Identifier: Apache-2.0
// LinearAttention from chunk to chunk: a block for kSlice columns of each state, which stay in
// float32 registers. The chunks' other operands are there (chunk_record.cuh).
#pragma once

#include "chunk_record.cuh"

/// Four warps have 16 tokens, or a quarter of the key channels, and up to 32 columns each; slices
/// of 64 columns have eight warps. kStages chunks are in shared memory or on their way.
template <class Shape, class Layer, int kSlice, int kStages>
struct ChunkStates {
  typedef ChunkRecord<Shape> Record;
  typedef typename Layer::Element T;
  typedef typename Layer::StateElement State;
  static constexpr int kRowWarps = 4, kColumnWarps = kSlice > 32 ? kSlice / 32 : 1;
  static constexpr int kWarps = kRowWarps * kColumnWarps, kThreads = 32 * kWarps;
  static constexpr int kSlices = Shape::kValueSize / kSlice;
  static constexpr int kPairs = kSlice / kColumnWarps / 16;  // of instructions, 16 columns
  static constexpr int kOwnTiles = Record::kKeyTiles / kRowWarps;
  static constexpr int kSliceTiles = kSlice / 16;
  static constexpr int kLanes = Record::kLanes;
  static constexpr int kPad = 8;  // elements; keeps rows in different banks
  static constexpr bool kGated = Shape::kGate != kUngated;
  static_assert(Shape::kValueSize % kSlice == 0, "whole slices");

  struct Stage {
    uint4 shared[Record::kAdded];  // what all slices read
    uint4 added[Record::kTiles][kSliceTiles * kLanes];
  };
  struct Memory {
    Stage stages[kStages];
    alignas(16) T states[Shape::kKeySize][kSlice + kPad];
    alignas(16) T updates[Record::kTokens][kSlice + kPad];
  };

  const Layer& layer;
  Memory& memory;
  const uint4* records;  // of this sequence and state
  i64 sequence, chunks;
  int state_head, column, warp, lane, g, t;  // column: the slice's first
  int own_column;                            // of the warp in the slice

  SINTER_DEVICE ChunkStates(const Layer& layer_, Memory& memory_, const uint4* all)
      : layer(layer_), memory(memory_) {
    const i64 own = static_cast<i64>(blockIdx.x) / kSlices;
    chunks = Record::chunks(layer.length);
    records = all + own * chunks * Record::kUnits;
    column = static_cast<int>(blockIdx.x % kSlices) * kSlice;
    state_head = static_cast<int>(own % Shape::kStates);
    sequence = own / Shape::kStates;
    warp = static_cast<int>(threadIdx.x) / 32 % kRowWarps;
    own_column = static_cast<int>(threadIdx.x) / 32 / kRowWarps * kPairs * 16;
    lane = static_cast<int>(threadIdx.x) % 32;
    g = lane / 4;
    t = lane % 4 * 2;
  }

  /// Starts the copies of a chunk, if it is one.
  SINTER_DEVICE void copy_chunk(i64 chunk) const {
    if (chunk < chunks) {
      const uint4* const from = records + chunk * Record::kUnits;
      Stage& stage = memory.stages[chunk % kStages];
      for (int i = static_cast<int>(threadIdx.x); i < Record::kAdded; i += kThreads)
        cp_async<16>(&stage.shared[i], from + i);
      constexpr int kUnits = Record::kTiles * kSliceTiles * kLanes;
      for (int i = static_cast<int>(threadIdx.x); i < kUnits; i += kThreads) {
        const int row = i / (kSliceTiles * kLanes), at = i % (kSliceTiles * kLanes);
        cp_async<16>(
            &stage.added[row][at],
            from + Record::kAdded + (row * Record::kValueTiles + column / 16) * kLanes + at);
      }
    }
    cp_async_commit();
  }
  SINTER_DEVICE void load_tile(u32 (&x)[4], const uint4* tile) const {
    const uint4 words = load_shared_x4(tile + lane);
    x[0] = words.x;
    x[1] = words.y;
    x[2] = words.z;
    x[3] = words.w;
  }
  /// Right operands of two instructions: 16 rows of this warp's columns.
  template <int kRows>
  SINTER_DEVICE void load_right(u32 (&x)[4], const T (&from)[kRows][kSlice + kPad], int row,
                                int pair) const {
    load_matrix_x4_transposed(x, &from[row + lane % 16][own_column + pair * 16 + lane / 16 * 8]);
  }
  SINTER_DEVICE static void multiply(float (&sums)[2][4], const u32 (&a)[4], const u32 (&b)[4]) {
    mma_16x8x16<T>(sums[0], a, b[0], b[1]);
    mma_16x8x16<T>(sums[1], a, b[2], b[3]);
  }
  /// Accumulators of two instructions as 16 rows of shared memory.
  template <int kRows>
  SINTER_DEVICE void store_rounded(const float (&sums)[2][4], T (&to)[kRows][kSlice + kPad],
                                   int row, int pair) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 rounded = pack_pair<T>(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
      memcpy(&to[row + g + i % 2 * 8][own_column + pair * 16 + i / 2 * 8 + t], &rounded, 4);
    }
  }

  // ---- states: tile i of this warp is that of key channels (warp * kOwnTiles + i) * 16
  typedef float States[kOwnTiles][kPairs][2][4];
  /// Calls `use` with each pair of neighbouring columns in registers and its place in memory.
  template <class Use>
  SINTER_DEVICE void for_each_state(States& states, Use use) const {
#pragma unroll
    for (int tile = 0; tile < kOwnTiles; ++tile)
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const i64 row = (sequence * Shape::kStates + state_head) * Shape::kKeySize +
                          (warp * kOwnTiles + tile) * 16 + g + i % 2 * 8;
          const int at = column + own_column + pair * 16 + i / 2 * 8 + t;
          float(&sums)[4] = states[tile][pair][i / 2];
          use(sums[i % 2 * 2], sums[i % 2 * 2 + 1], row * Shape::kValueSize + at);
        }
  }
  SINTER_DEVICE void load_states(States& states) const {
    for_each_state(states, [&](float& low, float& high, i64 at) {
      const auto both = load_if<2>(layer.state != nullptr, layer.state + at, narrow<State>(0.0f));
      low = widen(both, 0);
      high = widen(both, 1);
    });
  }
  SINTER_DEVICE void store_states(States& states) const {
    for_each_state(states, [&](float& low, float& high, i64 at) {
      const float both[2] = {low, high};
      store(layer.new_state + at, both);
    });
  }
  SINTER_DEVICE void publish_states(const States& states) const {
#pragma unroll
    for (int tile = 0; tile < kOwnTiles; ++tile)
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair)
        store_rounded(states[tile][pair], memory.states, (warp * kOwnTiles + tile) * 16, pair);
  }
  SINTER_DEVICE void decay_states(States& states, const Stage& stage) const {
    const float* const decays = reinterpret_cast<const float*>(stage.shared + Record::kDecays);
#pragma unroll
    for (int tile = 0; tile < kOwnTiles; ++tile) {
      const float* const own = decays + (warp * kOwnTiles + tile) * 16 + g;
      const float factors[2] = {own[0], own[8]};
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair)
#pragma unroll
        for (int i = 0; i < 8; ++i) states[tile][pair][i / 4][i % 4] *= factors[i % 4 / 2];
    }
  }

  typedef float Rows[kPairs][2][4];  // of this warp's tokens
  /// What queries and erasing keys read of the states before the chunk; publishes the updates.
  SINTER_DEVICE void read_states(const Stage& stage, Rows& out) const {
    Rows updates;
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      u32 added[4];
      load_tile(added, stage.added[warp] + (own_column / 16 + pair) * kLanes);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        updates[pair][i / 2][i % 2 * 2] = low_of<T>(added[i]);
        updates[pair][i / 2][i % 2 * 2 + 1] = high_of<T>(added[i]);
#pragma unroll
        for (int k = 0; k < 2; ++k) out[pair][i / 2][i % 2 * 2 + k] = 0.0f;
      }
    }
#pragma unroll
    for (int tile = 0; tile < Record::kKeyTiles; ++tile) {
      u32 query[4], erased[4];
      const int row_tile = warp * Record::kKeyTiles + tile;
      load_tile(query, stage.shared + (Record::kQuery + row_tile) * kLanes);
      if constexpr (Shape::kErases)
        load_tile(erased, stage.shared + (Record::kErased + row_tile) * kLanes);
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        u32 states[4];
        load_right(states, memory.states, tile * 16, pair);
        if constexpr (Shape::kErases) multiply(updates[pair], erased, states);
        multiply(out[pair], query, states);
      }
    }
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair)
      store_rounded(updates[pair], memory.updates, warp * 16, pair);
  }
  /// Adds the chunk's updates to the results and to the states.
  SINTER_DEVICE void add_updates(const Stage& stage, Rows& out, States& states) const {
#pragma unroll
    for (int tile = 0; tile < Record::kTiles; ++tile) {
      u32 updates[kPairs][4];
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair)
        load_right(updates[pair], memory.updates, tile * 16, pair);
#pragma unroll
      for (int own = 0; own < kOwnTiles; ++own) {
        u32 key[4];
        const int row_tile = (warp * kOwnTiles + own) * Record::kTiles + tile;
        load_tile(key, stage.shared + (Record::kKey + row_tile) * kLanes);
#pragma unroll
        for (int pair = 0; pair < kPairs; ++pair) multiply(states[own][pair], key, updates[pair]);
      }
      if (tile > warp) continue;
      u32 scores[4];
      load_tile(scores, stage.shared + Record::score_tile(warp, tile) * kLanes);
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) multiply(out[pair], scores, updates[pair]);
    }
  }
  SINTER_DEVICE void store_out(i64 chunk, const Rows& out) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const i64 token = chunk * Record::kTokens + warp * 16 + g + i * 8;
      if (token >= layer.length) continue;
      T* const row =
          layer.out + Shape::out_row(sequence * layer.length + token, state_head, 0) + column;
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const u32 rounded = pack_pair<T>(out[pair][j][i * 2], out[pair][j][i * 2 + 1]);
          memcpy(row + own_column + pair * 16 + j * 8 + t, &rounded, 4);
        }
    }
  }

  SINTER_DEVICE void run() const {
    States states;
    if constexpr (kStages > 1) {
#pragma unroll
      for (int chunk = 0; chunk < kStages - 1; ++chunk) copy_chunk(chunk);
    }
    load_states(states);
    publish_states(states);
    for (i64 chunk = 0; chunk < chunks; ++chunk) {
      if constexpr (kStages > 1) {
        cp_async_wait<kStages - 2>();
      } else {
        copy_chunk(chunk);
        cp_async_wait<0>();
      }
      __syncthreads();  // the chunk and the states before it are there; the last chunk is done
      if constexpr (kStages > 1) copy_chunk(chunk + kStages - 1);
      const Stage& stage = memory.stages[chunk % kStages];
      Rows out;
      read_states(stage, out);
      __syncthreads();  // the updates are there; the states have been read
      if constexpr (kGated) decay_states(states, stage);
      add_updates(stage, out, states);
      if (chunk + 1 < chunks) publish_states(states);
      store_out(chunk, out);
      if constexpr (kStages == 1) __syncthreads();
    }
    store_states(states);
  }
};
