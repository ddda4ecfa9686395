// SPDX-License-Identifier: Apache-2.0
// LinearAttention from chunk to chunk: a block for kSlice columns of each state. The chunks' other
// operands are there (chunk_record.cuh).
//
// What must be one behind another is only what changes the states. Four warps do so: of a chunk,
// each finds the updates of 16 tokens, then adds those of all tokens to a quarter of the key
// channels, which stay in float32 registers. States and updates are transposed, so that sums are
// left operands of the next product as they lie. Four other warps read the state that was before
// the chunk, a chunk later. No two warps need the same tile of a record: each goes from memory to
// the registers of the warp that needs it, kBuffers chunks ahead: of one, what half a chunk waits
// for would be on its way for the time of the other half only.
#pragma once

#include "chunk_table.cuh"

template <class Shape, class Layer, int kSlice>
struct ChunkStates {
  typedef ChunkRecord<Shape> Record;
  typedef typename Layer::Element T;
  typedef typename Layer::StateElement State;
  static constexpr int kWarps = 4, kThreads = 32 * 2 * kWarps;  // that change states; that read
  static constexpr int kColumns = kSlice / 16;                  // tiles of this block
  static constexpr int kSlices = Shape::kValueSize / kSlice;
  static constexpr int kLanes = Record::kLanes, kTiles = Record::kTiles;
  static constexpr int kKeyTiles = Record::kKeyTiles, kOwnKeys = kKeyTiles / kWarps;
  // As registers allow.
  static constexpr int kBuffers = Shape::kKeySize * kSlice <= 128 * 32 ? 2 : 1;
  static constexpr bool kGated = Shape::kGate != kUngated, kErases = Shape::kErases;
  static_assert(Shape::kValueSize % kSlice == 0 && kTiles == kWarps, "whole slices, own tokens");

  /// Left operands: states before a chunk and updates, of this chunk and of one before or behind.
  struct Memory {
    uint4 states[2][kColumns * kKeyTiles * kLanes];
    uint4 updates[2][kColumns * kTiles * kLanes];
  };

  const Layer& layer;
  Memory& memory;
  const uint4* records = nullptr;  // of this sequence and state
  const int* table = nullptr;      // the sequence's chunks (ChunkTable)
  i64 sequence = 0;
  int chunks = 0, state_head, column, warp, lane, g, t;  // column: the slice's first

  SINTER_DEVICE ChunkStates(const Layer& layer_, Memory& memory_) : layer(layer_), memory(memory_) {
    column = static_cast<int>(blockIdx.x % kSlices) * kSlice;
    state_head = static_cast<int>(blockIdx.x / kSlices % Shape::kStates);
    warp = static_cast<int>(threadIdx.x) / 32 % kWarps;
    lane = static_cast<int>(threadIdx.x) % 32;
    g = lane / 4;
    t = lane % 4 * 2;
  }
  SINTER_DEVICE ChunkStates(const Layer& layer_, Memory& memory_, const uint4* all)
      : ChunkStates(layer_, memory_) {
    const i64 own = static_cast<i64>(blockIdx.x) / kSlices;
    chunks = static_cast<int>(Record::chunks(layer.length));
    sequence = own / Shape::kStates;
    records = all + own * chunks * Record::kUnits + lane;
  }
  /// Of a ragged batch.
  SINTER_DEVICE ChunkStates(const Layer& layer_, Memory& memory_, const uint4* all,
                            const ChunkTable& batch)
      : ChunkStates(layer_, memory_) {
    sequence = static_cast<i64>(blockIdx.x) / kSlices / Shape::kStates;
    const int first = batch.firsts()[sequence];
    chunks = batch.firsts()[sequence + 1] - first;
    records = all + (static_cast<i64>(state_head) * batch.most + first) * Record::kUnits + lane;
    table = batch.memory + first * 4;
  }

  typedef u32 Tile[4];
  /// A tile of a record, from its first unit of 16 bytes.
  SINTER_DEVICE void load(Tile& x, int chunk, int unit) const {
    unpack(x, records[static_cast<i64>(chunk) * Record::kUnits + unit]);
  }
  /// Fetches neighbouring tiles of a chunk that loads will be of into the L2: memory is further
  /// away than a chunk's time.
  template <int kMost>
  SINTER_DEVICE void fetch_tiles(int chunk, int unit, int tiles = kMost) const {
    constexpr int kAhead = 2 + kBuffers, kLine = 128 / 16;
    if (chunk + kAhead >= chunks) return;
    const uint4* const from =
        records - lane + static_cast<i64>(chunk + kAhead) * Record::kUnits + unit;
#pragma unroll
    for (int i = 0; i < kMost * kLanes; i += 32 * kLine)
      if (i + lane * kLine < tiles * kLanes) fetch_line(from + i + lane * kLine);
  }
  SINTER_DEVICE void load_shared(Tile& x, const uint4* tiles, int tile) const {
    unpack(x, load_shared_x4(tiles + tile * kLanes + lane));
  }
  SINTER_DEVICE void store_shared(uint4* tiles, int tile, const Tile& x) const {
    tiles[tile * kLanes + lane] = uint4{x[0], x[1], x[2], x[3]};
  }
  SINTER_DEVICE static void unpack(Tile& x, const uint4& words) {
    x[0] = words.x;
    x[1] = words.y;
    x[2] = words.z;
    x[3] = words.w;
  }
  typedef float Sums[2][4];

  // ---- warps that change states: rows are columns of the state
  typedef float States[kColumns][kOwnKeys][2][4];
  /// Calls `use` with each element and its place in memory. `place`: of a sequence, or the slot.
  template <class Use>
  SINTER_DEVICE void for_each_state(States& states, i64 place, Use use) const {
    const i64 own = (place * Shape::kStates + state_head) * Shape::kKeySize;
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int key = 0; key < kOwnKeys; ++key)
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const i64 row = own + (warp * kOwnKeys + key) * 16 + i / 4 * 8 + t + i % 2;
          use(states[c][key][i / 4][i % 4],
              row * Shape::kValueSize + column + c * 16 + g + i / 2 % 2 * 8);
        }
  }
  SINTER_DEVICE void load_states(States& states) const {
    const i64 place = Layer::kIsRagged ? layer.sources[table[0]] : sequence;
    const bool is_there = Layer::kIsRagged ? place >= 0 : layer.state != nullptr;
    for_each_state(states, place,
                   [&](float& x, i64 at) { x = is_there ? widen(layer.state[at]) : 0.0f; });
  }
  SINTER_DEVICE void store_states(States& states, i64 place) const {
    for_each_state(states, place,
                   [&](float& x, i64 at) { layer.new_state[at] = narrow<State>(x); });
  }
  /// Where a slot keeps the states behind a chunk.
  SINTER_DEVICE void keep_states(States& states, int chunk) const {
    const int slot = table[chunk * 4 + 3];
    if (slot >= 0) store_states(states, slot);
  }
  SINTER_DEVICE void publish_states(const States& states, int chunk) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int key = 0; key < kOwnKeys; ++key) {
        Tile x;
        round_sums<T>(x, states[c][key]);
        store_shared(memory.states[chunk % 2], c * kKeyTiles + warp * kOwnKeys + key, x);
      }
  }

  /// What a warp has of a chunk's record: rows that erase, keys, decays and what is added.
  struct Changing {
    Tile erased[kErases ? kKeyTiles : 1], keys[kOwnKeys][kTiles], added[kColumns];
    float decays[Shape::kGate == kGatedByChannel ? kOwnKeys * 4 : 1];
  };
  SINTER_DEVICE void load_erased(Changing& x, int chunk, int key) const {
    load(x.erased[key], chunk, (Record::kErased + warp * kKeyTiles + key) * kLanes);
  }
  SINTER_DEVICE void load_added(Changing& x, int chunk) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      load(x.added[c], chunk, Record::kAdded + ((column / 16 + c) * kTiles + warp) * kLanes);
  }
  SINTER_DEVICE void load_key(Changing& x, int chunk, int key, int tile) const {
    load(x.keys[key][tile], chunk,
         (Record::kKey + (warp * kOwnKeys + key) * kTiles + tile) * kLanes);
  }
  SINTER_DEVICE void load_decays(Changing& x, int chunk) const {
    const float* const decays = reinterpret_cast<const float*>(
        records - lane + static_cast<i64>(chunk) * Record::kUnits + Record::kDecays);
    if constexpr (Shape::kGate == kGatedByHead) x.decays[0] = decays[0];
    if constexpr (Shape::kGate == kGatedByChannel) {
#pragma unroll
      for (int i = 0; i < kOwnKeys * 2; ++i) {
        const auto pair = ::load<2>(decays + warp * kOwnKeys * 16 + i * 8 + t);
        x.decays[i * 2] = pair.v[0];
        x.decays[i * 2 + 1] = pair.v[1];
      }
    }
  }
  SINTER_DEVICE void load_all(Changing& x, int chunk) const {
    if constexpr (kErases) {
#pragma unroll
      for (int key = 0; key < kKeyTiles; ++key) load_erased(x, chunk, key);
    }
    load_added(x, chunk);
#pragma unroll
    for (int i = 0; i < kOwnKeys * kTiles; ++i) load_key(x, chunk, i / kTiles, i % kTiles);
    load_decays(x, chunk);
  }

  SINTER_DEVICE void fetch_changing(int chunk) const {
    if constexpr (kErases)
      fetch_tiles<kKeyTiles>(chunk, (Record::kErased + warp * kKeyTiles) * kLanes);
    fetch_tiles<kOwnKeys * kTiles>(chunk, (Record::kKey + warp * kOwnKeys * kTiles) * kLanes);
    fetch_tiles<kColumns>(chunk,
                          Record::kAdded + (column / 16 * kTiles + warp * kColumns) * kLanes);
  }

  /// Publishes the updates of this warp's tokens; then loads of the next chunk what it took them
  /// from.
  SINTER_DEVICE void find_updates(Changing& x, int chunk, int next) const {
    const uint4* const states = memory.states[chunk % 2];
    Sums sums[kColumns];
    if constexpr (kErases) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int i = 0; i < 8; ++i)
          sums[c][i / 4][i % 4] =
              i % 2 == 0 ? low_of<T>(x.added[c][i / 2]) : high_of<T>(x.added[c][i / 2]);
#pragma unroll
      for (int key = 0; key < kKeyTiles; ++key) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          Tile state;
          load_shared(state, states, c * kKeyTiles + key);
          mma_16x8x16<T>(sums[c][0], state, x.erased[key][0], x.erased[key][1]);
          mma_16x8x16<T>(sums[c][1], state, x.erased[key][2], x.erased[key][3]);
        }
        load_erased(x, next, key);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if constexpr (kErases) round_sums<T>(x.added[c], sums[c]);
      store_shared(memory.updates[chunk % 2], c * kTiles + warp, x.added[c]);
    }
    load_added(x, next);
  }
  /// Adds the updates to this warp's states.
  SINTER_DEVICE void change(Changing& x, States& states, int chunk, int next) const {
    if constexpr (kGated) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int i = 0; i < kOwnKeys * 8; ++i)
          states[c][i / 8][i / 4 % 2][i % 4] *=
              x.decays[Shape::kGate == kGatedByChannel ? i / 4 * 2 + i % 2 : 0];
      load_decays(x, next);
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      Tile updates[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        load_shared(updates[c], memory.updates[chunk % 2], c * kTiles + tile);
#pragma unroll
      for (int key = 0; key < kOwnKeys; ++key) {
        const Tile& keys = x.keys[key][tile];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          mma_16x8x16<T>(states[c][key][0], updates[c], keys[0], keys[1]);
          mma_16x8x16<T>(states[c][key][1], updates[c], keys[2], keys[3]);
        }
        load_key(x, next, key, tile);
      }
    }
  }

  // ---- warps that read them: rows are tokens, 16 of each warp
  struct Reading {
    Tile queries[kKeyTiles], scores[kTiles];
  };
  SINTER_DEVICE void load_query(Reading& x, int chunk, int key) const {
    load(x.queries[key], chunk,
         Record::kChanging + (Record::kQuery + warp * kKeyTiles + key) * kLanes);
  }
  SINTER_DEVICE void load_scores(Reading& x, int chunk, int tile) const {
    if (tile <= warp)
      load(x.scores[tile], chunk, Record::kChanging + Record::score_tile(warp, tile) * kLanes);
  }
  SINTER_DEVICE void fetch_reading(int chunk) const {
    fetch_tiles<kKeyTiles>(chunk, Record::kChanging + (Record::kQuery + warp * kKeyTiles) * kLanes);
    fetch_tiles<kTiles>(chunk, Record::kChanging + Record::score_tile(warp, 0) * kLanes, warp + 1);
  }
  typedef float Rows[kColumns][2][4];
  SINTER_DEVICE void read_states(Reading& x, Rows& out, int chunk, int next) const {
    const uint4* const states = memory.states[chunk % 2];
#pragma unroll
    for (int key = 0; key < kKeyTiles; ++key) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        Tile state;
        load_shared(state, states, c * kKeyTiles + key);
        mma_16x8x16<T>(out[c][0], x.queries[key], state[0], state[2]);
        mma_16x8x16<T>(out[c][1], x.queries[key], state[1], state[3]);
      }
      load_query(x, next, key);
    }
  }
  SINTER_DEVICE void read_updates(Reading& x, Rows& out, int chunk, int next) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      if (tile > warp) continue;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        Tile update;
        load_shared(update, memory.updates[chunk % 2], c * kTiles + tile);
        mma_16x8x16<T>(out[c][0], x.scores[tile], update[0], update[2]);
        mma_16x8x16<T>(out[c][1], x.scores[tile], update[1], update[3]);
      }
      load_scores(x, next, tile);
    }
    store_out(chunk, out);
  }
  SINTER_DEVICE void store_out(int chunk, const Rows& out) const {
    i64 first = static_cast<i64>(chunk) * Record::kTokens, left = layer.length - first;
    first += sequence * layer.length;
    if constexpr (Layer::kIsRagged) {
      first = table[chunk * 4];
      left = table[chunk * 4 + 1];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = warp * 16 + g + i * 8;
      if (token >= left) continue;
      T* const row = layer.out + Shape::out_row(first + token, state_head, 0) + column;
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float pair[2] = {out[c][j][i * 2], out[c][j][i * 2 + 1]};
          store(row + c * 16 + j * 8 + t, pair);  // one store; of memcpy() the compiler makes four
        }
    }
  }

  /// `chunk`, or the last: behind that one, loads are of it again.
  SINTER_DEVICE int existing(int chunk) const { return chunk < chunks ? chunk : chunks - 1; }
  SINTER_DEVICE void change_all() const {
    States states;
    load_states(states);
    if (chunks > 0) {
      Changing x[kBuffers];
#pragma unroll
      for (int i = 0; i < kBuffers; ++i) load_all(x[i], existing(i));
      publish_states(states, 0);
      for (int first = 0; first < chunks; first += kBuffers)
#pragma unroll
        for (int i = 0; i < kBuffers; ++i) {
          const int chunk = first + i, next = existing(chunk + kBuffers);
          if (chunk == chunks) break;
          fetch_changing(chunk);
          __syncthreads();  // the states are there; those of the chunk before have been read
          find_updates(x[i], chunk, next);
          __syncthreads();  // the updates are there
          change(x[i], states, chunk, next);
          publish_states(states, chunk + 1);
          if constexpr (Layer::kIsRagged) keep_states(states, chunk);
        }
      __syncthreads();
      __syncthreads();
    }
    if constexpr (!Layer::kIsRagged) store_states(states, sequence);
  }
  SINTER_DEVICE void read_all() const {
    if (chunks == 0) return;
    Reading x[kBuffers];
#pragma unroll
    for (int i = 0; i < kBuffers; ++i) {
#pragma unroll
      for (int key = 0; key < kKeyTiles; ++key) load_query(x[i], existing(i), key);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) load_scores(x[i], existing(i), tile);
    }
    __syncthreads();
    __syncthreads();
    for (int first = 0; first < chunks; first += kBuffers)
#pragma unroll
      for (int i = 0; i < kBuffers; ++i) {
        const int chunk = first + i, next = existing(chunk + kBuffers);
        if (chunk == chunks) break;
        Rows out = {};
        fetch_reading(chunk);
        __syncthreads();
        read_states(x[i], out, chunk, next);
        __syncthreads();
        read_updates(x[i], out, chunk, next);
      }
  }
  SINTER_DEVICE void run() const {
    if (Layer::kIsRagged && chunks == 0) return;
    if (threadIdx.x < kThreads / 2)
      change_all();
    else
      read_all();
  }
};
