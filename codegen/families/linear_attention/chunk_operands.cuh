// SPDX-License-Identifier: Apache-2.0
// All of LinearAttention that needs no state: a block for each chunk of a sequence and state makes
// its ChunkRecord. Four warps have 16 tokens each.
#pragma once

#include "chunk_table.cuh"
#include "unit_lower.cuh"

template <class Shape, class Layer>
struct ChunkOperands {
  typedef ChunkRecord<Shape> Record;
  typedef typename Layer::Element T;
  static constexpr int kThreads = 128, kTokens = Record::kTokens;
  static constexpr int kKeySize = Shape::kKeySize, kValueSize = Shape::kValueSize;
  static constexpr bool kByChannel = Shape::kGate == kGatedByChannel;
  static constexpr bool kErases = Shape::kErases;
  static constexpr int kPad = 8;  // elements; keeps rows in different banks
  static constexpr int kGateRow = kByChannel ? kKeySize + 4 : 1;

  // A row of the matrix A, in float32, takes the place of a query's.
  static constexpr int kMatrixRow = 2 * (kTokens + 4), kKeyRow = kKeySize + kPad;
  static constexpr int kQueryRow = kErases && kKeyRow < kMatrixRow ? kMatrixRow : kKeyRow;

  struct Memory {
    alignas(16) T query[kTokens][kQueryRow];
    alignas(16) T key[kTokens][kKeySize + kPad];
    alignas(16) T value[kTokens][kValueSize + kPad];
    alignas(16) float gates[kTokens][kGateRow];  // binary logarithms of e^G
    float beta[kTokens];
  };

  const Layer& layer;
  Memory& memory;
  uint4 *records, *record;  // all; this chunk's
  i64 first;                // token of the chunk
  int state_head, left;     // tokens of the chunk
  int warp, lane, g, t;     // a fragment's first row and column of this lane

  SINTER_DEVICE ChunkOperands(const Layer& layer_, Memory& memory_, uint4* records_)
      : layer(layer_), memory(memory_), records(records_) {
    warp = static_cast<int>(threadIdx.x) / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
    g = lane / 4;
    t = lane % 4 * 2;
  }

  /// `at`: the record's number, of chunks of a sequence and state one behind the other.
  SINTER_DEVICE void set_chunk(i64 at) {
    const i64 chunks = Record::chunks(layer.length), own = at % chunks * kTokens;
    record = records + at * Record::kUnits;
    state_head = static_cast<int>(at / chunks % Shape::kStates);
    first = at / chunks / Shape::kStates * layer.length + own;
    left = static_cast<int>(min_size(layer.length - own, kTokens));
  }

  SINTER_DEVICE i64 token(int row) const { return first + (row < left ? row : 0); }
  SINTER_DEVICE i64 head(int row) const { return token(row) * Shape::kStates + state_head; }

  // ---- into shared memory
  template <int kSize, int kRow, class Row>
  SINTER_DEVICE void copy_rows(T (&to)[kTokens][kRow], const T* from, Row row_of) const {
    constexpr int kUnits = kSize / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kTokens * kUnits; i += kThreads) {
      const int row = i / kUnits, column = i % kUnits * 8;
      cp_async<16>(&to[row][column], from + row_of(token(row)) + column, row < left);
    }
  }
  SINTER_DEVICE void load() const {
    copy_rows<kKeySize>(memory.query, layer.query,
                        [&](i64 at) { return Shape::query_row(at, state_head, 0); });
    copy_rows<kKeySize>(memory.key, layer.key,
                        [&](i64 at) { return Shape::key_row(at, state_head); });
    copy_rows<kValueSize>(memory.value, layer.value,
                          [&](i64 at) { return Shape::value_row(at, state_head); });
    cp_async_commit();
    if constexpr (kByChannel) sum_channels();
    if constexpr (Shape::kGate == kGatedByHead) sum_gates();
    if constexpr (kErases) {
      const int row = static_cast<int>(threadIdx.x);
      if (row < kTokens) memory.beta[row] = row < left ? widen(layer.beta[head(row)]) : 0.0f;
    }
    cp_async_wait<0>();
    __syncthreads();
  }
  /// Elements of A, later of its inverse.
  SINTER_DEVICE float* matrix(int row, int column) const {
    return reinterpret_cast<float*>(&memory.query[row][0]) + column;
  }
  /// A gate in binary logarithms. What is less than any number is e^-200, no infinity, whose
  /// differences would be no numbers.
  SINTER_DEVICE static float gate_of(float x) { return (x < -200.0f ? -200.0f : x) * 1.44269504f; }
  SINTER_DEVICE void sum_channels() const {
    constexpr int kAtOnce = 32;  // loads on their way
    for (int c = static_cast<int>(threadIdx.x); c < kKeySize; c += kThreads) {
      float sum = 0.0f;
      for (int begin = 0; begin < kTokens; begin += kAtOnce) {
        float x[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) x[i] = widen(layer.decay[head(begin + i) * kKeySize + c]);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (begin + i < left) sum += gate_of(x[i]);
          memory.gates[begin + i][c] = sum;
        }
      }
    }
  }
  SINTER_DEVICE void sum_gates() const {
    if (warp != 0) return;
    float own[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane * 2 + i;
      own[i] = row < left ? gate_of(widen(layer.decay[head(row)])) : 0.0f;
    }
    float sum = own[0] + own[1];
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float before = __shfl_up_sync(0xffffffffu, sum, distance);
      if (lane >= distance) sum += before;
    }
    memory.gates[lane * 2][0] = sum - own[1];
    memory.gates[lane * 2 + 1][0] = sum;
  }

  // ---- gates
  SINTER_DEVICE float gate(int row, int channel) const {
    return Shape::kGate == kUngated ? 0.0f : memory.gates[row][kByChannel ? channel : 0];
  }
  /// e^(G[to] - G[from]) of a channel.
  SINTER_DEVICE float decay(int to, int from, int channel) const {
    return Shape::kGate == kUngated ? 1.0f : power_of_two(gate(to, channel) - gate(from, channel));
  }
  SINTER_DEVICE float decay(int to, int channel) const {  // e^G
    return Shape::kGate == kUngated ? 1.0f : power_of_two(gate(to, channel));
  }
  SINTER_DEVICE static u32 scaled(u32 pair, float low, float high) {
    return pack_pair<T>(low_of<T>(pair) * low, high_of<T>(pair) * high);
  }

  /// `part`: the record's first unit of what the tile is one of.
  SINTER_DEVICE void store_tile(int part, int tile, const u32 (&x)[4]) const {
    record[part + tile * Record::kLanes + lane] = uint4{x[0], x[1], x[2], x[3]};
  }
  /// As right operands of two instructions, which are pairs of neighbouring registers.
  SINTER_DEVICE void store_right(int tile, const u32 (&x)[4]) const {
    record[tile * Record::kLanes + lane] = uint4{x[0], x[2], x[1], x[3]};
  }
  typedef u32 Queries[Record::kKeyTiles][4];  // of this warp's tokens
  /// Register i of a fragment has rows g + i % 2 * 8 and columns t + i / 2 * 8 and the next.
  SINTER_DEVICE void store_queries(Queries& queries) const {
#pragma unroll
    for (int tile = 0; tile < Record::kKeyTiles; ++tile) {
      load_rows(queries[tile], memory.query, tile);
      u32 x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = warp * 16 + g + i % 2 * 8, channel = tile * 16 + t + i / 2 * 8;
        x[i] = scaled(queries[tile][i], layer.scale * decay(row, channel),
                      layer.scale * decay(row, channel + 1));
      }
      store_tile(Record::kChanging, Record::kQuery + warp * Record::kKeyTiles + tile, x);
    }
  }
  /// Transposed: rows are channels, columns this warp's tokens.
  SINTER_DEVICE void store_keys() const {
    for (int tile = 0; tile < Record::kKeyTiles; ++tile) {
      u32 x[4];
      load_matrix_x4_transposed(
          x, &memory.key[warp * 16 + lane / 16 * 8 + lane % 8][tile * 16 + lane / 8 % 2 * 8]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int channel = tile * 16 + g + i % 2 * 8, row = warp * 16 + t + i / 2 * 8;
        x[i] = scaled(x[i], decay(kTokens - 1, row, channel), decay(kTokens - 1, row + 1, channel));
      }
      store_right(Record::kKey + tile * Record::kTiles + warp, x);
    }
  }
  SINTER_DEVICE void store_decays() const {
    if constexpr (Shape::kGate != kUngated) {
      float* const decays = reinterpret_cast<float*>(record + Record::kDecays);
      for (int c = static_cast<int>(threadIdx.x); c < kKeySize; c += kThreads)
        decays[c] = decay(kTokens - 1, c);
    }
  }
  /// The fragment of this warp's rows and of 16 columns.
  template <int kRow>
  SINTER_DEVICE void load_rows(u32 (&x)[4], const T (&from)[kTokens][kRow], int tile) const {
    load_matrix_x4(x, &from[warp * 16 + lane % 16][tile * 16 + lane / 16 * 8]);
  }
  /// Right operands of two instructions whose 8 columns are rows of `from`, of a channel tile.
  template <int kRow>
  SINTER_DEVICE void load_columns(u32 (&x)[4], const T (&from)[kTokens][kRow], int rows,
                                  int tile) const {
    load_matrix_x4(x, &from[rows + lane / 16 * 8 + lane % 8][tile * 16 + lane / 8 % 2 * 8]);
  }

  // ---- products of tokens
  /// Query and key products of this warp's tokens with 16 others of which gates of all channels
  /// are the same or none are.
  SINTER_DEVICE void multiply_tokens(int others, const Queries& queries, float (&scores)[2][4],
                                     float (&keys)[2][4]) const {
#pragma unroll
    for (int tile = 0; tile < Record::kKeyTiles; ++tile) {
      u32 query[4], key[4], other[4];
      memcpy(query, queries[tile], sizeof(query));
      load_columns(other, memory.key, others, tile);
      if constexpr (kErases) load_rows(key, memory.key, tile);
      if constexpr (kByChannel) between_blocks(tile, others, query, key, other);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        mma_16x8x16<T>(scores[j], query, other[2 * j], other[2 * j + 1]);
        if constexpr (kErases) mma_16x8x16<T>(keys[j], key, other[2 * j], other[2 * j + 1]);
      }
    }
  }
  /// Gates of both sides up to the end of the tokens before this warp's: none grows.
  SINTER_DEVICE void between_blocks(int tile, int others, u32 (&query)[4], u32 (&key)[4],
                                    u32 (&other)[4]) const {
    const int middle = warp * 16 - 1;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = warp * 16 + g + i % 2 * 8, channel = tile * 16 + t + i / 2 * 8;
      const float low = decay(row, middle, channel), high = decay(row, middle, channel + 1);
      query[i] = scaled(query[i], low, high);
      if constexpr (kErases) key[i] = scaled(key[i], low, high);
      const int before = others + i / 2 * 8 + g, own = tile * 16 + t + i % 2 * 8;
      other[i] = scaled(other[i], decay(middle, before, own), decay(middle, before, own + 1));
    }
  }
  /// Of this warp's tokens with each other, in float32 with each pair's own gates.
  SINTER_DEVICE void multiply_own_tokens(float (&scores)[2][4], float (&keys)[2][4]) const {
    const int base = warp * 16;
    for (int c = 0; c < kKeySize; c += 2) {
      float gates[2][2], query[2][2], key[2][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) load_pair(base + g + i * 8, c, gates[i], query[i], key[i]);
#pragma unroll
      for (int column = 0; column < 4; ++column) {
        const int j = column / 2, from = base + j * 8 + t + column % 2;
        float gate[2], unused[2], other[2];
        load_pair(from, c, gate, unused, other);
#pragma unroll
        for (int i = j; i < 2; ++i) {  // columns from 8 on have no rows up to 8
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const float product = other[k] * power_of_two(gates[i][k] - gate[k]);
            const int at = i * 2 + column % 2;
            scores[j][at] = fmaf(query[i][k], product, scores[j][at]);
            if constexpr (kErases) keys[j][at] = fmaf(key[i][k], product, keys[j][at]);
          }
        }
      }
    }
  }
  SINTER_DEVICE void load_pair(int row, int channel, float (&gates)[2], float (&query)[2],
                               float (&key)[2]) const {
    const auto own_gates = ::load<2>(&memory.gates[row][kByChannel ? channel : 0]);
    const auto own_query = ::load<2>(&memory.query[row][channel]);
    const auto own_key = ::load<2>(&memory.key[row][channel]);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      gates[k] = own_gates.v[k];
      query[k] = widen(own_query, k);
      key[k] = widen(own_key, k);
    }
  }
  /// Queries are in registers; those in memory are read for the last block, which is first, as A
  /// takes their place.
  SINTER_DEVICE void store_scores(const Queries& queries) const {
    for (int block = warp; block >= 0; --block) {
      float scores[2][4] = {}, keys[2][4] = {};
      if constexpr (kByChannel) {
        if (block == warp) multiply_own_tokens(scores, keys);
      }
      if (!kByChannel || block < warp) multiply_tokens(block * 16, queries, scores, keys);
      __syncwarp();
      u32 packed[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // a register has two columns of row i % 2 of half i / 2
        const int row = warp * 16 + g + i % 2 * 8, column = block * 16 + t + i / 2 * 8;
        float pair[2], products[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int at = i % 2 * 2 + k;
          const float factor = kByChannel ? 1.0f : decay(row, column + k, 0);
          pair[k] = column + k <= row ? scores[i / 2][at] * factor * layer.scale : 0.0f;
          products[k] =
              kErases && column + k < row ? keys[i / 2][at] * factor * memory.beta[row] : 0.0f;
        }
        packed[i] = pack_pair<T>(pair[0], pair[1]);
        if constexpr (kErases) store(matrix(row, column), products);
      }
      store_tile(Record::kChanging, Record::score_tile(warp, block), packed);
    }
  }

  // ---- the inverse
  SINTER_DEVICE void invert() const {
    const auto at = [&](int row, int column) { return matrix(row, column); };
    if (warp < 2)
      invert_diagonal(at, warp, lane);
    else if constexpr (kByChannel)
      decay_keys();
    __syncthreads();
    invert_lower_left(at);
  }
  /// Keys with their gates, in place, by the last two warps.
  SINTER_DEVICE void decay_keys() const {
    for (int i = static_cast<int>(threadIdx.x) - kThreads / 2; i < kTokens * kKeySize / 2;
         i += kThreads / 2) {
      const int row = i / (kKeySize / 2), channel = i % (kKeySize / 2) * 2;
      const auto pair = ::load<2>(&memory.key[row][channel]);
      const float decayed[2] = {widen(pair, 0) * decay(row, channel),
                                widen(pair, 1) * decay(row, channel + 1)};
      ::store(&memory.key[row][channel], decayed);
    }
  }

  // ---- what is added and what is erased
  /// This warp's rows of the inverse times beta, negative for what is erased.
  SINTER_DEVICE void load_inverse(u32 (&x)[4][4], bool erases) const {
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = warp * 16 + g + i % 2 * 8, column = tile * 16 + t + i / 2 * 8;
        float pair[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          float factor = memory.beta[column + k];
          if (erases) factor *= kByChannel ? -1.0f : -decay(column + k, 0);
          pair[k] = tile <= warp ? *matrix(row, column + k) * factor : 0.0f;
        }
        x[tile][i] = pack_pair<T>(pair[0], pair[1]);
      }
    }
  }
  SINTER_DEVICE void store_erased(const u32 (&x)[4][4]) const {
    for (int c = 0; c < Record::kKeyTiles; ++c) {
      float sums[2][4] = {};
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
        if (tile > warp) continue;
        u32 b[4];
        load_matrix_x4_transposed(b, &memory.key[tile * 16 + lane % 16][c * 16 + lane / 16 * 8]);
        mma_16x8x16<T>(sums[0], x[tile], b[0], b[1]);
        mma_16x8x16<T>(sums[1], x[tile], b[2], b[3]);
      }
      u32 rounded[4];
      round_sums<T>(rounded, sums);
      store_right(Record::kErased + warp * Record::kKeyTiles + c, rounded);
    }
  }
  /// Values of 16 columns and 16 tokens, transposed.
  SINTER_DEVICE void load_values(u32 (&x)[4], int column, int tile) const {
    load_matrix_x4_transposed(
        x, &memory.value[tile * 16 + lane / 16 * 8 + lane % 8][column * 16 + lane / 8 % 2 * 8]);
  }
  SINTER_DEVICE void store_added(const u32 (&x)[4][4]) const {
    for (int c = 0; c < Record::kValueTiles; ++c) {
      float sums[2][4] = {};
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
        if (tile > warp) continue;
        u32 a[4];
        load_values(a, c, tile);
        mma_16x8x16<T>(sums[0], a, x[tile][0], x[tile][2]);
        mma_16x8x16<T>(sums[1], a, x[tile][1], x[tile][3]);
      }
      u32 rounded[4];
      round_sums<T>(rounded, sums);
      store_tile(Record::kAdded, c * Record::kTiles + warp, rounded);
    }
  }

  SINTER_DEVICE void run() {
    set_chunk(static_cast<i64>(blockIdx.x));
    make_record();
  }
  /// Of a ragged batch: records of all its chunks of a state, one behind the other.
  SINTER_DEVICE void run_ragged(const ChunkTable& table, i64 sequences) {
    const int i = static_cast<int>(blockIdx.x) % table.most;
    if (i >= table.firsts()[sequences]) return;
    const Chunk chunk = table.chunk(i);
    record = records + static_cast<i64>(blockIdx.x) * Record::kUnits;
    state_head = static_cast<int>(blockIdx.x) / table.most;
    first = chunk.first;
    left = chunk.tokens;
    make_record();
  }
  SINTER_DEVICE void make_record() const {
    load();
    Queries queries;
    store_queries(queries);
    store_keys();
    store_decays();
    store_scores(queries);
    if constexpr (kErases) {
      __syncthreads();
      invert();
      u32 x[4][4];
      load_inverse(x, false);
      store_added(x);
      load_inverse(x, true);
      store_erased(x);
    } else {
      for (int tile = 0; tile < Record::kValueTiles; ++tile) {
        u32 x[4];
        load_values(x, tile, warp);
        store_tile(Record::kAdded, tile * Record::kTiles + warp, x);
      }
    }
  }
};
