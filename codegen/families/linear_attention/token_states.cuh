// SPDX-License-Identifier: Apache-2.0
// LinearAttention token by token in float32, for all types, sizes and rules: of few tokens its time
// is that of the states' bytes.
#pragma once

#include "chunk_table.cuh"
#include "reduce.cuh"

/// kSlice columns of a state by kTeam threads, in registers for all tokens: kWidth neighbouring
/// columns and kRows neighbouring rows each. A block has several teams if they are smaller.
template <class Shape, class Layer, int kSlice, int kWidth, int kTeam>
struct TokenStates {
  static constexpr int kThreads = 128, kWarps = kThreads / 32;
  static constexpr int kAcross = kSlice / kWidth;  // threads for a row
  static constexpr int kGroups = kTeam / kAcross;  // of rows
  static constexpr int kRows = (Shape::kKeySize + kGroups - 1) / kGroups;
  static constexpr int kSlices = (Shape::kValueSize + kSlice - 1) / kSlice;
  static constexpr int kTeams = kThreads / kTeam;
  static constexpr int kReads = Shape::kReads;
  static constexpr bool kIsGeneral = Shape::kRule == kGeneralDelta;
  static constexpr int kGates = Shape::kGate == kGatedByChannel ? kRows : 1;
  // What threads of a column add up: what a key erases, what each query reads, and products of
  // queries with what is added to the state.
  static constexpr int kErased = Shape::kErases ? kWidth : 0;
  static constexpr int kRead = kErased, kProducts = kErased + kReads * kWidth;
  static constexpr int kSums = kProducts + kReads * (kIsGeneral ? 2 : 1);
  static constexpr bool kMeets = kTeam > 32;  // warps of a team, in shared memory
  static_assert(!kMeets || kTeam == kThreads, "a block is one team, or warps have whole teams");
  static_assert(Shape::kValueSize % kWidth == 0 && kTeam % kAcross == 0, "whole vectors");

  struct Memory {
    float sums[2][kMeets ? kWarps : 1][kMeets ? kSums : 1][kMeets ? kAcross : 1];
  };

  struct Token {
    float query[kReads][kRows], key[kRows], gate[kGates];
    float erased[kIsGeneral ? kRows : 1], added[kIsGeneral ? kRows : 1];
    float value[kWidth], beta;
  };

  const Layer& layer;
  Memory& memory;
  int first_row, column, state_head;
  i64 sequence, first, length;  // `first`: its first token
  bool exists;

  SINTER_DEVICE TokenStates(const Layer& layer_, Memory& memory_, i64 units)
      : layer(layer_), memory(memory_) {
    const int thread = static_cast<int>(threadIdx.x) % kTeam;
    const i64 unit = static_cast<i64>(blockIdx.x) * kTeams + static_cast<int>(threadIdx.x) / kTeam;
    first_row = thread / kAcross * kRows;
    column = static_cast<int>(unit % kSlices) * kSlice + thread % kAcross * kWidth;
    state_head = static_cast<int>(unit / kSlices % Shape::kStates);
    sequence = unit / kSlices / Shape::kStates;
    exists = unit < units && column < Shape::kValueSize;
    if constexpr (Layer::kIsRagged) {
      first = unit < units ? layer.starts[sequence] : 0;
      length = unit < units ? layer.starts[sequence + 1] - first : 0;
    } else {
      first = sequence * layer.length;
      length = layer.length;
    }
  }

  /// Leaves out sequences that have chunks (chunk_table.cuh).
  SINTER_DEVICE TokenStates(const Layer& layer_, Memory& memory_, i64 units,
                            const ChunkTable& table)
      : TokenStates(layer_, memory_, units) {
    if (length > 0 && table.firsts()[sequence + 1] > table.firsts()[sequence]) length = 0;
  }

  SINTER_DEVICE static constexpr bool has_whole_rows() { return Shape::kKeySize % kRows == 0; }
  SINTER_DEVICE bool has_row(int r) const { return exists && first_row + r < Shape::kKeySize; }

  /// This thread's elements of a row of keys; zeros where there is none.
  template <class From>
  SINTER_DEVICE void load_keys(const From* row, float (&x)[kRows]) const {
    constexpr bool kIsPower = (kRows & (kRows - 1)) == 0;
    if constexpr (has_whole_rows() && kIsPower && kRows > 1) {
      const auto all = load_if<kRows>(has_row(0), row + first_row, narrow<From>(0.0f));
#pragma unroll
      for (int r = 0; r < kRows; ++r) x[r] = widen(all, r);
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) x[r] = has_row(r) ? widen(row[first_row + r]) : 0.0f;
    }
  }
  template <class From>
  SINTER_DEVICE void load_columns(const From* row, float (&x)[kWidth]) const {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) x[j] = exists ? widen(row[column + j]) : 0.0f;
  }

  SINTER_DEVICE void load_token(i64 t, Token& token) const {
    const i64 at = first + t, head = at * Shape::kStates + state_head;
#pragma unroll
    for (int read = 0; read < kReads; ++read)
      load_keys(layer.query + Shape::query_row(at, state_head, read), token.query[read]);
    load_keys(layer.key + Shape::key_row(at, state_head), token.key);
    if constexpr (Shape::kGate == kGatedByChannel)
      load_keys(layer.decay + head * Shape::kKeySize, token.gate);
    if constexpr (Shape::kGate == kGatedByHead)
      token.gate[0] = exists ? widen(layer.decay[head]) : 0.0f;
    if constexpr (Shape::kRule == kDelta) token.beta = exists ? widen(layer.beta[head]) : 0.0f;
    if constexpr (kIsGeneral) {
      load_keys(layer.erase + head * 2 * Shape::kKeySize, token.erased);
      load_keys(layer.erase + (head * 2 + 1) * Shape::kKeySize, token.added);
    }
    load_columns(layer.value + Shape::value_row(at, state_head), token.value);
  }

  /// Sums over the rows of a team's columns; each thread gets those of its own.
  SINTER_DEVICE void add_up(float (&sums)[kSums], int buffer) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i)
#pragma unroll
      for (int mask = kAcross; mask < (kMeets ? 32 : kTeam); mask *= 2)
        sums[i] += exchange(sums[i], mask);
    if constexpr (kMeets) {
      const int warp = static_cast<int>(threadIdx.x) / 32;
      const int lane = static_cast<int>(threadIdx.x) % 32, own = lane % kAcross;
      if (lane < kAcross) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) memory.sums[buffer][warp][i][own] = sums[i];
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        sums[i] = memory.sums[buffer][0][i][own];
#pragma unroll
        for (int w = 1; w < kWarps; ++w) sums[i] += memory.sums[buffer][w][i][own];
      }
    }
  }

  /// Updates the state by a token, and adds what its queries read to `sums`: with S the decayed
  /// state, query^T (S + key u^T) = query^T S + (query key) u, so that one exchange gives both u
  /// and the results.
  SINTER_DEVICE void update(float (&state)[kRows][kWidth], const Token& token, int buffer,
                            float (&sums)[kSums]) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = 0.0f;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kIsGeneral) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sums[j] = fmaf(token.erased[r], state[r][j], sums[j]);
      }
      if constexpr (Shape::kGate != kUngated) {
        const float gate = exponential(token.gate[Shape::kGate == kGatedByChannel ? r : 0]);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) state[r][j] *= gate;
      }
      if constexpr (Shape::kRule == kDelta) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sums[j] = fmaf(token.key[r], state[r][j], sums[j]);
      }
#pragma unroll
      for (int read = 0; read < kReads; ++read) {
        const float query = token.query[read][r];
#pragma unroll
        for (int j = 0; j < kWidth; ++j)
          sums[kRead + read * kWidth + j] =
              fmaf(query, state[r][j], sums[kRead + read * kWidth + j]);
        sums[kProducts + read] = fmaf(query, token.key[r], sums[kProducts + read]);
        if constexpr (kIsGeneral)
          sums[kProducts + kReads + read] =
              fmaf(query, token.added[r], sums[kProducts + kReads + read]);
      }
    }
    add_up(sums, buffer);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      float update = token.value[j];
      if constexpr (Shape::kRule == kDelta) update = token.beta * (update - sums[j]);
#pragma unroll
      for (int read = 0; read < kReads; ++read) {
        float& result = sums[kRead + read * kWidth + j];
        result = fmaf(sums[kProducts + read], update, result);
        if constexpr (kIsGeneral) result = fmaf(sums[kProducts + kReads + read], sums[j], result);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        state[r][j] = fmaf(token.key[r], update, state[r][j]);
        if constexpr (kIsGeneral) state[r][j] = fmaf(token.added[r], sums[j], state[r][j]);
      }
    }
  }

  SINTER_DEVICE void store_out(i64 t, const float (&sums)[kSums]) const {
    if (!exists || first_row != 0) return;
    const i64 at = first + t;
#pragma unroll
    for (int read = 0; read < kReads; ++read) {
      auto* const row = layer.out + Shape::out_row(at, state_head, read) + column;
#pragma unroll
      for (int j = 0; j < kWidth; ++j)
        row[j] = narrow<typename Layer::Element>(layer.scale * sums[kRead + read * kWidth + j]);
    }
  }

  /// Of this thread's elements in the states of a sequence or in a slot.
  SINTER_DEVICE i64 place(i64 states) const {
    return ((states * Shape::kStates + state_head) * Shape::kKeySize + first_row) *
               Shape::kValueSize +
           column;
  }

  SINTER_DEVICE void load_state(bool is_there, i64 states, float (&state)[kRows][kWidth]) const {
    typedef typename Layer::StateElement State;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto row =
          load_if<kWidth>(is_there && has_row(r),
                          layer.state + place(states) + r * Shape::kValueSize, narrow<State>(0.0f));
#pragma unroll
      for (int j = 0; j < kWidth; ++j) state[r][j] = widen(row.v[j]);
    }
  }
  SINTER_DEVICE void store_state(i64 states, const float (&state)[kRows][kWidth]) const {
    typedef typename Layer::StateElement State;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Vec<State, kWidth> row;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) row.v[j] = narrow<State>(state[r][j]);
      if (has_row(r)) store(layer.new_state + place(states) + r * Shape::kValueSize, row);
    }
  }

  /// The most tokens of a team of this warp: teams add up together.
  SINTER_DEVICE int longest() const {
    int most = static_cast<int>(length);
    if constexpr (kTeam < 32) {
#pragma unroll
      for (int mask = kTeam; mask < 32; mask *= 2) {
        const int other = exchange(most, mask);
        most = other > most ? other : most;
      }
    }
    return most;
  }

  SINTER_DEVICE void run() const {
    float state[kRows][kWidth];
    Token next;
    if constexpr (Layer::kIsRagged) {
      const i64 source = length > 0 ? layer.sources[first] : -1;
      load_state(source >= 0, source, state);
    } else {
      load_state(layer.state != nullptr, sequence, state);
    }
    const i64 turns = Layer::kIsRagged ? longest() : length;
    if (length > 0) load_token(0, next);
    for (i64 t = 0; t < turns; ++t) {
      const Token token = next;
      if (t + 1 < length) load_token(t + 1, next);
      float sums[kSums];
      update(state, token, static_cast<int>(t % 2), sums);
      if (Layer::kIsRagged && t >= length) continue;
      store_out(t, sums);
      if constexpr (Layer::kIsRagged) {
        const int slot = layer.slots[first + t];
        if (exists && slot >= 0) store_state(slot, state);
      }
    }
    if constexpr (!Layer::kIsRagged) store_state(sequence, state);
  }
};
