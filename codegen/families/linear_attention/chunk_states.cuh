// SPDX-License-Identifier: Apache-2.0
// LinearAttention from chunk to chunk: a block for kSlice columns of each state. The chunks' other
// operands are there (chunk_record.cuh).
//
// What must be one behind another is only what changes the states. Warps that do so have 16 columns
// of all keys each, transposed, in float32 registers: their sums are left operands of the next
// product as they lie, so that a chunk is two products without an exchange between threads. As many
// other warps read the state that was before a chunk, a chunk later, from what these leave in
// shared memory.
#pragma once

#include "chunk_record.cuh"

/// kStages chunks are in shared memory or on their way.
template <class Shape, class Layer, int kSlice, int kStages>
struct ChunkStates {
  typedef ChunkRecord<Shape> Record;
  typedef typename Layer::Element T;
  typedef typename Layer::StateElement State;
  static constexpr int kColumnTiles = kSlice / 16;
  static constexpr int kChangers = kColumnTiles;  // warps that change states; as many read them
  static constexpr int kThreads = 64 * kChangers;
  static constexpr int kSlices = Shape::kValueSize / kSlice;
  static constexpr int kRowTiles = Record::kTiles / kChangers;  // tokens of a reading warp
  static constexpr int kLanes = Record::kLanes, kTiles = Record::kTiles;
  static constexpr int kKeyTiles = Record::kKeyTiles;
  static constexpr bool kGated = Shape::kGate != kUngated;
  static_assert(Shape::kValueSize % kSlice == 0, "whole slices");
  static_assert(kTiles % kChangers == 0, "whole tiles of tokens");

  struct Memory {
    uint4 changing[kStages][Record::kChanging];
    uint4 added[kStages + 1][kColumnTiles * kTiles * kLanes];
    uint4 reading[kStages + 1][Record::kReading];
    // Left operands: states before a chunk and updates, of this chunk and the one before.
    uint4 states[2][kColumnTiles * kKeyTiles * kLanes];
    uint4 updates[Shape::kErases ? 2 : 1][Shape::kErases ? kColumnTiles * kTiles * kLanes : 1];
  };

  const Layer& layer;
  Memory& memory;
  const uint4* records;  // of this sequence and state
  i64 sequence, chunks;
  int state_head, column, warp, lane, g, t;  // column: the slice's first

  SINTER_DEVICE ChunkStates(const Layer& layer_, Memory& memory_, const uint4* all)
      : layer(layer_), memory(memory_) {
    const i64 own = static_cast<i64>(blockIdx.x) / kSlices;
    chunks = Record::chunks(layer.length);
    records = all + own * chunks * Record::kUnits;
    column = static_cast<int>(blockIdx.x % kSlices) * kSlice;
    state_head = static_cast<int>(own % Shape::kStates);
    sequence = own / Shape::kStates;
    warp = static_cast<int>(threadIdx.x) / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
    g = lane / 4;
    t = lane % 4 * 2;
  }

  /// Starts the copies of a chunk, if it is one.
  SINTER_DEVICE void copy_chunk(i64 chunk) const {
    if (chunk < chunks) {
      const uint4* const from = records + chunk * Record::kUnits;
      copy(memory.changing[chunk % kStages], from);
      copy(memory.reading[chunk % (kStages + 1)], from + Record::kChanging);
      copy(memory.added[chunk % (kStages + 1)],
           from + Record::kAdded + column / 16 * kTiles * kLanes);
    }
    cp_async_commit();
  }
  template <int kUnits>
  SINTER_DEVICE void copy(uint4 (&to)[kUnits], const uint4* from) const {
    for (int i = static_cast<int>(threadIdx.x); i < kUnits; i += kThreads)
      cp_async<16>(&to[i], from + i);
  }
  SINTER_DEVICE void load_tile(u32 (&x)[4], const uint4* tile) const {
    const uint4 words = load_shared_x4(tile + lane);
    x[0] = words.x;
    x[1] = words.y;
    x[2] = words.z;
    x[3] = words.w;
  }
  SINTER_DEVICE void store_tile(uint4* tile, const u32 (&x)[4]) const {
    tile[lane] = uint4{x[0], x[1], x[2], x[3]};
  }
  /// `b`: a tile whose rows are the columns of two instructions.
  SINTER_DEVICE static void multiply(float (&sums)[2][4], const u32 (&a)[4], const u32 (&b)[4]) {
    mma_16x8x16<T>(sums[0], a, b[0], b[2]);
    mma_16x8x16<T>(sums[1], a, b[1], b[3]);
  }
  SINTER_DEVICE static void round(u32 (&x)[4], const float (&sums)[2][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[i] = pack_pair<T>(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
  }

  // ---- warps that change states: rows are columns of the state, columns are its keys
  typedef float States[kKeyTiles][2][4];
  /// Calls `use` with each element and its place in memory.
  template <class Use>
  SINTER_DEVICE void for_each_state(States& states, Use use) const {
    const i64 own = (sequence * Shape::kStates + state_head) * Shape::kKeySize;
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const i64 row = own + tile * 16 + i / 4 * 8 + t + i % 2;
        use(states[tile][i / 4][i % 4],
            row * Shape::kValueSize + column + warp * 16 + g + i / 2 % 2 * 8);
      }
  }
  SINTER_DEVICE void load_states(States& states) const {
    for_each_state(states, [&](float& x, i64 at) {
      x = layer.state != nullptr ? widen(layer.state[at]) : 0.0f;
    });
  }
  SINTER_DEVICE void store_states(States& states) const {
    for_each_state(states, [&](float& x, i64 at) { layer.new_state[at] = narrow<State>(x); });
  }
  SINTER_DEVICE void decay(States& states, const uint4* changing) const {
    const float* const decays = reinterpret_cast<const float*>(changing + Record::kDecays);
    const float first = decays[0];
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float factors[2] = {first, first};
        if constexpr (Shape::kGate == kGatedByChannel) {
          const auto own = ::load<2>(decays + tile * 16 + half * 8 + t);
          factors[0] = own.v[0];
          factors[1] = own.v[1];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) states[tile][half][i] *= factors[i % 2];
      }
  }
  SINTER_DEVICE void change(i64 chunk, States& states) const {
    const uint4* const changing = memory.changing[chunk % kStages];
    const uint4* const added = memory.added[chunk % (kStages + 1)] + warp * kTiles * kLanes;
    uint4* const before = memory.states[chunk % 2] + warp * kKeyTiles * kLanes;
    u32 updates[kTiles][4];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) load_tile(updates[tile], added + tile * kLanes);
    if constexpr (Shape::kErases) {
      float sums[kTiles][2][4];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 8; ++i)
          sums[tile][i / 4][i % 4] = i % 2 == 0 ? low_of<T>(updates[tile][i / 2])
                                                : high_of<T>(updates[tile][i / 2]);
#pragma unroll
      for (int key = 0; key < kKeyTiles; ++key) {
        u32 own[4];
        round(own, states[key]);
        store_tile(before + key * kLanes, own);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          u32 erased[4];
          load_tile(erased, changing + (Record::kErased + tile * kKeyTiles + key) * kLanes);
          multiply(sums[tile], own, erased);
        }
      }
      uint4* const found = memory.updates[chunk % 2] + warp * kTiles * kLanes;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        round(updates[tile], sums[tile]);
        store_tile(found + tile * kLanes, updates[tile]);
      }
    } else {
#pragma unroll
      for (int key = 0; key < kKeyTiles; ++key) {
        u32 own[4];
        round(own, states[key]);
        store_tile(before + key * kLanes, own);
      }
    }
    if constexpr (kGated) decay(states, changing);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int key = 0; key < kKeyTiles; ++key) {
        u32 keys[4];
        load_tile(keys, changing + (Record::kKey + key * kTiles + tile) * kLanes);
        multiply(states[key], updates[tile], keys);
      }
  }

  // ---- warps that read them: rows are tokens
  SINTER_DEVICE void read(i64 chunk) const {
    const uint4* const reading = memory.reading[chunk % (kStages + 1)];
    const uint4* const states = memory.states[chunk % 2];
    const uint4* updates = memory.added[chunk % (kStages + 1)];
    if constexpr (Shape::kErases) updates = memory.updates[chunk % 2];
    const int first = (warp - kChangers) * kRowTiles;
    float out[kRowTiles][kColumnTiles][2][4] = {};
#pragma unroll
    for (int key = 0; key < kKeyTiles; ++key) {
      u32 query[kRowTiles][4];
#pragma unroll
      for (int row = 0; row < kRowTiles; ++row)
        load_tile(query[row],
                  reading + (Record::kQuery + (first + row) * kKeyTiles + key) * kLanes);
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c) {
        u32 state[4];
        load_tile(state, states + (c * kKeyTiles + key) * kLanes);
#pragma unroll
        for (int row = 0; row < kRowTiles; ++row) multiply(out[row][c], query[row], state);
      }
    }
#pragma unroll
    for (int row = 0; row < kRowTiles; ++row)
      for (int tile = 0; tile <= first + row; ++tile) {
        u32 scores[4];
        load_tile(scores, reading + Record::score_tile(first + row, tile) * kLanes);
#pragma unroll
        for (int c = 0; c < kColumnTiles; ++c) {
          u32 update[4];
          load_tile(update, updates + (c * kTiles + tile) * kLanes);
          multiply(out[row][c], scores, update);
        }
      }
#pragma unroll
    for (int row = 0; row < kRowTiles; ++row) store_out(chunk, first + row, out[row]);
  }
  SINTER_DEVICE void store_out(i64 chunk, int row_tile, const float (&out)[kColumnTiles][2][4])
      const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const i64 token = chunk * Record::kTokens + row_tile * 16 + g + i * 8;
      if (token >= layer.length) continue;
      T* const row =
          layer.out + Shape::out_row(sequence * layer.length + token, state_head, 0) + column;
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const u32 rounded = pack_pair<T>(out[c][j][i * 2], out[c][j][i * 2 + 1]);
          memcpy(row + c * 16 + j * 8 + t, &rounded, 4);
        }
    }
  }

  SINTER_DEVICE void run() const {
    const bool changes = warp < kChangers;
    States states;
    for (int chunk = 0; chunk < kStages - 1; ++chunk) copy_chunk(chunk);
    if (changes) load_states(states);
    for (i64 chunk = 0; chunk <= chunks; ++chunk) {
      if constexpr (kStages > 1) {
        cp_async_wait<kStages - 2>();
      } else {
        __syncthreads();
        copy_chunk(chunk);
        cp_async_wait<0>();
      }
      __syncthreads();  // the chunk is there, and what is left of the one before; that is changed
      if constexpr (kStages > 1) copy_chunk(chunk + kStages - 1);
      if (changes) {
        if (chunk < chunks) change(chunk, states);
      } else if (chunk > 0) {
        read(chunk - 1);
      }
    }
    if (changes) store_states(states);
  }
};
