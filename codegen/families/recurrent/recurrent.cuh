// SPDX-License-Identifier: Apache-2.0
// A recurrent layer as one persistent kernel for all steps (sm_90 and later). A cluster of blocks
// computes one direction of a few sequences. Each warp keeps the recurrent weights of four units
// (sixteen rows) in registers, and what does not fit in shared memory. It multiplies them by the
// state of all units, which every block keeps double-buffered in its shared memory. Asynchronous
// stores send the new state of four units to all blocks of the cluster; an mbarrier in each block
// counts them. No other barrier is needed: a block sends its next state only after it has received
// all of the current one. That implies that all warps of all blocks have read the previous state. A
// single block runs without a cluster, where asynchronous stores are illegal: it stores its state
// and uses a block barrier.
#pragma once

#include "cluster.cuh"
#include "mma.cuh"
#include "recurrent_cells.cuh"
#include "recurrent_exchange.cuh"

/// An absent operand.
struct Absent {};
SINTER_DEVICE float element_at(Absent, i64) { return 0.0f; }
template <class T>
SINTER_DEVICE float element_at(const T* p, i64 i) {
  return widen(p[i]);
}
SINTER_DEVICE i64 length_at(Absent, i64, i64 steps) { return steps; }
template <class T>
SINTER_DEVICE i64 length_at(const T* p, i64 i, i64) {
  return static_cast<i64>(p[i]);
}
template <class T>
SINTER_DEVICE void store_at(T* p, i64 i, float value) {
  p[i] = narrow<T>(value);
}

/// kUnits units in kDirections directions, the first one reversed if kBackwards. Schedule: blocks
/// of a cluster, warps of a block, blocks of 32 weights of a row in registers, and sequences of a
/// cluster (a multiple of eight).
template <class T, class CellType, int kUnitCount, int kDirectionCount, bool kRunsBackwards,
          int kClusterBlocks, int kBlockWarps, int kHeldWeights, int kSequences>
struct RecurrentShape {
  typedef T Element;
  typedef CellType Cell;
  static constexpr int kUnits = kUnitCount, kDirections = kDirectionCount;
  static constexpr bool kBackwards = kRunsBackwards;
  static constexpr int kBlocks = kClusterBlocks, kWarps = kBlockWarps, kHeld = kHeldWeights;
  static constexpr int kColumns = kSequences, kColumnTiles = kColumns / 8;
  static constexpr int kTiles = (kUnits + 3) / 4;    // of four units, one for each warp
  static constexpr int kDepth = (kUnits + 31) / 32;  // blocks of 32 weights of a row
  static constexpr int kStaged = kDepth - kHeld;     // blocks in shared memory
  static constexpr int kSize = sizeof(T);
  // 16 bits: each read takes 16 bytes of every column: a pitch of an odd multiple of 64 bytes has
  // no bank conflicts. 32 bits: a read takes 64 bytes of one column.
  static constexpr int kColumnBytes =
      kDepth * 32 * kSize + (kSize == 2 && kDepth % 2 == 0 ? 64 : 0);
  static constexpr int kStateBytes = kColumns * kColumnBytes;
  static constexpr int kWords = kSize / 2;  // of 16 bytes, in a lane's eight weights of a row
  static constexpr int kWeightBytes = kStaged * kWarps * kWords * 1024;
  static constexpr int kSharedBytes = 2 * kStateBytes + kWeightBytes + 16;
  static constexpr int kThreads = kWarps * 32;
  static_assert(kTiles <= kBlocks * kWarps, "every unit has a warp");
};

/// A lane's weights: rows lane / 4 and lane / 4 + 8, eight adjacent weights in every block of 32.
/// Row r of a tile is gate r / 8 + r % 8 / 4 * 2 of unit r % 4.
template <class Shape>
struct RecurrentWeights {
  uint4 held[Shape::kHeld > 0 ? Shape::kHeld : 1][2][Shape::kWords];
};

/// 16 bytes of a row from weight k on; zero beyond the row.
template <class Shape>
SINTER_DEVICE uint4 recurrent_row(const typename Shape::Element* row, bool valid, int k) {
  constexpr int kEach = 16 / Shape::kSize;
  uint4 words = {0u, 0u, 0u, 0u};
  if (!valid || k >= Shape::kUnits) return words;
  if constexpr (Shape::kUnits % kEach == 0) {
    words = *reinterpret_cast<const uint4*>(row + k);
  } else {
    u32 each[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Shape::kSize == 4) {
        each[i] = k + i < Shape::kUnits ? same_bits<u32>(row[k + i]) : 0u;
      } else {
        const u32 low = k + 2 * i < Shape::kUnits ? row[k + 2 * i].bits : 0u;
        const u32 high = k + 2 * i + 1 < Shape::kUnits ? row[k + 2 * i + 1].bits : 0u;
        each[i] = low | high << 16;
      }
    }
    words = uint4{each[0], each[1], each[2], each[3]};
  }
  return words;
}

/// Coordinates of a thread.
template <class Shape>
struct RecurrentPlace {
  u32 rank, direction, slice;
  int warp, lane, tile, unit, column;  // unit and column (of each eight) whose state it computes
  SINTER_DEVICE static RecurrentPlace here() {
    RecurrentPlace p;
    const u32 cluster = blockIdx.x / Shape::kBlocks;
    p.rank = blockIdx.x % Shape::kBlocks;
    p.direction = cluster % Shape::kDirections;
    p.slice = cluster / Shape::kDirections;
    p.warp = static_cast<int>(threadIdx.x) / 32;
    p.lane = static_cast<int>(threadIdx.x) % 32;
    p.tile = static_cast<int>(p.rank) * Shape::kWarps + p.warp;
    p.unit = p.tile * 4 + p.lane / 4 % 4;
    p.column = p.lane % 4 * 2 + p.lane / 16;
    return p;
  }
};

/// Offset of a lane's weights among those in shared memory, in bytes.
template <class Shape>
SINTER_DEVICE int recurrent_staged(const RecurrentPlace<Shape>& p) {
  return (p.warp * Shape::kStaged * 64 * Shape::kWords + p.lane) * 16;
}

/// weights: [directions, gates * units, units].
template <class Shape>
SINTER_DEVICE void load_recurrent_weights(const typename Shape::Element* weights,
                                          RecurrentWeights<Shape>& result) {
  SINTER_DYNAMIC_SHARED(shared);
  const auto p = RecurrentPlace<Shape>::here();
  const typename Shape::Element* rows[2];
  bool valid[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int gate = p.lane / 16 * 2 + half;
    valid[half] = gate < Shape::Cell::kGates && p.unit < Shape::kUnits;
    const i64 row =
        valid[half] ? (i64(p.direction) * Shape::Cell::kGates + gate) * Shape::kUnits + p.unit : 0;
    rows[half] = weights + row * Shape::kUnits;
  }
  const int first = p.lane % 4 * 8;
#pragma unroll
  for (int block = 0; block < Shape::kHeld; ++block)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int word = 0; word < Shape::kWords; ++word)
        result.held[block][half][word] =
            recurrent_row<Shape>(rows[half], valid[half], block * 32 + first + word * 4);
  if constexpr (Shape::kStaged > 0) {
    unsigned char* const staged = shared + 2 * Shape::kStateBytes + recurrent_staged<Shape>(p);
#pragma unroll 4
    for (int block = 0; block < Shape::kStaged; ++block)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int word = 0; word < Shape::kWords; ++word)
          *reinterpret_cast<uint4*>(staged + ((block * 2 + half) * Shape::kWords + word) * 512) =
              recurrent_row<Shape>(rows[half], valid[half],
                                   (Shape::kHeld + block) * 32 + first + word * 4);
  }
}

/// multiply_recurrent() in float32. A lane sums a quarter of the weights of its two rows for all
/// columns; exchanges in each four lanes add the quarters and leave the MMA's layout.
template <class Shape>
SINTER_DEVICE void multiply_recurrent_f32(const RecurrentWeights<Shape>& weights,
                                          const unsigned char* state, const unsigned char* staged,
                                          int lane, int columns,
                                          float (&accumulators)[Shape::kColumnTiles][4]) {
  constexpr int kRows = Shape::Cell::kGates == 1 ? 1 : 2;  // an RNN's second row is zero
  float sums[2][Shape::kColumns] = {};
  const unsigned char* const part = state + lane % 4 * 32;
#pragma unroll
  for (int block = 0; block < Shape::kDepth; ++block) {
    float w[kRows][8];
#pragma unroll
    for (int row = 0; row < kRows; ++row)
#pragma unroll
      for (int word = 0; word < 2; ++word) {
        const uint4 bits =
            block < Shape::kHeld
                ? weights.held[block < Shape::kHeld ? block : 0][row][word]
                : load_shared_x4(staged + (((block - Shape::kHeld) * 2 + row) * 2 + word) * 512);
        w[row][word * 4] = same_bits<float>(bits.x);
        w[row][word * 4 + 1] = same_bits<float>(bits.y);
        w[row][word * 4 + 2] = same_bits<float>(bits.z);
        w[row][word * 4 + 3] = same_bits<float>(bits.w);
      }
#pragma unroll
    for (int column = 0; column < Shape::kColumns; ++column) {
      if (column >= columns) break;
#pragma unroll
      for (int word = 0; word < 2; ++word) {
        const uint4 bits =
            load_shared_x4(part + column * Shape::kColumnBytes + block * 128 + word * 16);
        const float h[4] = {same_bits<float>(bits.x), same_bits<float>(bits.y),
                            same_bits<float>(bits.z), same_bits<float>(bits.w)};
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int row = 0; row < kRows; ++row)
            sums[row][column] = fmaf(w[row][word * 4 + i], h[i], sums[row][column]);
      }
    }
  }
  const bool upper = lane % 4 >= 2, odd = lane % 2 != 0;
#pragma unroll
  for (int n = 0; n < Shape::kColumnTiles; ++n)
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float(&a)[Shape::kColumns] = sums[row];
      float four[4], two[2];
      // Of eight columns, lane q of four ends with columns 2 q and 2 q + 1.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float mine = upper ? a[n * 8 + 4 + i] : a[n * 8 + i];
        const float sent = upper ? a[n * 8 + i] : a[n * 8 + 4 + i];
        four[i] = row < kRows ? mine + __shfl_xor_sync(0xffffffffu, sent, 2) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float mine = odd ? four[2 + i] : four[i], sent = odd ? four[i] : four[2 + i];
        two[i] = row < kRows ? mine + __shfl_xor_sync(0xffffffffu, sent, 1) : 0.0f;
        accumulators[n][row * 2 + i] = two[i];
      }
    }
}

/// accumulators[16][8] of the tile, for each eight columns: its weights times the state at `state`;
/// reads `columns` columns.
template <class Shape>
SINTER_DEVICE void multiply_recurrent(const RecurrentWeights<Shape>& weights,
                                      const unsigned char* state, const unsigned char* staged,
                                      int lane, int columns,
                                      float (&accumulators)[Shape::kColumnTiles][4]) {
  typedef typename Shape::Element T;
  constexpr int kTiles = Shape::kColumnTiles;
  // Independent MMA chains; long rows leave no registers for more.
  constexpr int kChains = kTiles == 1 ? (Shape::kDepth <= 8 ? 8 : 4) : kTiles == 2 ? 2 : 1;
  float parts[kChains][kTiles][4] = {};
  const unsigned char* const column = state + lane / 4 * Shape::kColumnBytes + lane % 4 * 16;
#pragma unroll
  for (int block = 0; block < Shape::kDepth; ++block) {
    uint4 low, high;
    if (block < Shape::kHeld) {
      low = weights.held[block < Shape::kHeld ? block : 0][0][0];
      high = weights.held[block < Shape::kHeld ? block : 0][1][0];
    } else {
      low = load_shared_x4(staged + (block - Shape::kHeld) * 1024);
      high = load_shared_x4(staged + (block - Shape::kHeld) * 1024 + 512);
    }
    const u32 first[4] = {low.x, high.x, low.y, high.y};
    const u32 second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      uint4 b = {0u, 0u, 0u, 0u};
      if (n * 8 + lane / 4 < columns)
        b = load_shared_x4(column + n * 8 * Shape::kColumnBytes + block * 64);
      mma_16x8x16<T>(parts[block * 2 % kChains][n], first, b.x, b.y);
      mma_16x8x16<T>(parts[(block * 2 + 1) % kChains][n], second, b.z, b.w);
    }
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      accumulators[n][i] = parts[0][n][i];
#pragma unroll
      for (int chain = 1; chain < kChains; ++chain) accumulators[n][i] += parts[chain][n][i];
    }
}

/// Collects all gates of the lane's unit and column from its tile's accumulators. The upper half of
/// the lanes has gates 2 and 3 of both columns, and computes the second column.
SINTER_DEVICE void gather_gates(const float (&accumulators)[4], int lane, float (&gates)[4]) {
  const bool upper = lane >= 16;
  const float mine0 = upper ? accumulators[1] : accumulators[0],
              mine1 = upper ? accumulators[3] : accumulators[2];
  const float got0 = __shfl_xor_sync(0xffffffffu, upper ? accumulators[0] : accumulators[1], 16);
  const float got1 = __shfl_xor_sync(0xffffffffu, upper ? accumulators[2] : accumulators[3], 16);
  gates[0] = upper ? got0 : mine0;
  gates[1] = upper ? got1 : mine1;
  gates[2] = upper ? mine0 : got0;
  gates[3] = upper ? mine1 : got1;
}

/// A lane's message for eight columns: the states of four units in one column, for one block. A
/// warp has one for each column and block, 32 at a time.
struct RecurrentParcel {
  int column = 0, from = 0;  // source lane of the first unit; the next ones are in lanes from + 4 i
  u32 rank = 0;
  bool exists = false;
};

/// Sends the warp's new states to every block of the cluster: to `state`, counted by `barrier`.
template <class Shape, int kSends>
SINTER_DEVICE void send_states(float value, const RecurrentPlace<Shape>& p,
                               const RecurrentParcel (&parcels)[kSends], int sends,
                               unsigned char* state, unsigned char* barrier) {
  constexpr int kWords = 2 * Shape::kWords;  // of four bytes, for four units
  u32 bits;
  if constexpr (Shape::kSize == 4) {
    bits = same_bits<u32>(value);
  } else {
    bits = narrow<typename Shape::Element>(value).bits;
    bits |= __shfl_xor_sync(0xffffffffu, bits, 4) << 16;
  }
#pragma unroll
  for (int send = 0; send < kSends; ++send) {
    if (send >= sends) break;
    const RecurrentParcel& parcel = parcels[send];
    u32 words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      words[i] = __shfl_sync(0xffffffffu, bits, parcel.from + i * 16 / kWords);
    if (!parcel.exists) continue;
    unsigned char* const to =
        state + parcel.column * Shape::kColumnBytes + p.tile * 4 * Shape::kSize;
    if constexpr (Shape::kBlocks == 1) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) reinterpret_cast<u32*>(to)[i] = words[i];
    } else {
      send_state(to, words, barrier, parcel.rank);
    }
  }
}

/// Runs all steps. Operands are as in ir/ops/recurrent/recurrent.cpp; absent ones are Absent.
template <class Shape, class Bias, class StateH, class StateC, class Lengths, class Y, class LastH,
          class LastC>
SINTER_DEVICE void run_recurrent(const RecurrentWeights<Shape>& weights,
                                 const typename Shape::Element* x, Bias bias, StateH initial_h,
                                 StateC initial_c, Lengths lengths, Y* y, LastH last_h,
                                 LastC last_c, i64 steps, i64 batch) {
  typedef typename Shape::Element T;
  typedef typename Shape::Cell Cell;
  typedef RecurrentGates<T> Gates;
  constexpr int kUnits = Shape::kUnits, kGates = Cell::kGates, kColumnTiles = Shape::kColumnTiles;
  SINTER_DYNAMIC_SHARED(shared);
  const auto p = RecurrentPlace<Shape>::here();
  unsigned char* const barriers = shared + 2 * Shape::kStateBytes + Shape::kWeightBytes;
  const unsigned char* const staged = shared + 2 * Shape::kStateBytes + recurrent_staged<Shape>(p);
  const i64 first = i64(p.slice) * Shape::kColumns;
  const int columns =
      static_cast<int>(batch - first < Shape::kColumns ? batch - first : Shape::kColumns);
  const bool backwards = Shape::kBackwards != (p.direction == 1);
  const i32 bytes = Shape::kTiles * columns * 4 * Shape::kSize;

  // Both buffers are zero in padding units; the first one gets the initial state.
  for (int i = threadIdx.x; i < 2 * Shape::kStateBytes / 16; i += Shape::kThreads)
    *reinterpret_cast<uint4*>(shared + i * 16) = uint4{0u, 0u, 0u, 0u};
  if (Shape::kBlocks > 1 && threadIdx.x == 0) {
    begin_arrivals(barriers);
    begin_arrivals(barriers + 8);
    expect_arrivals(barriers, bytes);
    expect_arrivals(barriers + 8, bytes);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < columns * kUnits; i += Shape::kThreads) {
    const i64 at = (i64(p.direction) * batch + first) * kUnits + i;
    *reinterpret_cast<T*>(shared + i / kUnits * Shape::kColumnBytes + i % kUnits * Shape::kSize) =
        narrow<T>(element_at(initial_h, at));
  }
  // After this the mbarriers of all blocks are initialized.
  __syncthreads();
  if constexpr (Shape::kBlocks > 1) cluster_barrier();

  // A lane's results: its unit's state, in its column of each eight.
  float h[kColumnTiles], c[kColumnTiles], now[kColumnTiles][4] = {};
  i64 length[kColumnTiles];
  bool makes[kColumnTiles];
  const i64 x_step = batch * Shape::kDirections * kGates * kUnits;
  constexpr i64 kNextTile = i64(8) * Shape::kDirections * kGates * kUnits;
  const i64 sequence = first + p.column;
  const i64 offset = (i64(p.direction) * batch + sequence) * kUnits + p.unit;
  const T* x_at = x + (sequence * Shape::kDirections + p.direction) * kGates * kUnits + p.unit;
  if (backwards) x_at += (steps - 1) * x_step;
  float own_bias[4] = {};
#pragma unroll
  for (int gate = 0; gate < kGates; ++gate)
    if (p.unit < kUnits)
      own_bias[gate] = element_at(bias, (i64(p.direction) * kGates + gate) * kUnits + p.unit);
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    makes[n] = p.unit < kUnits && n * 8 + p.column < columns;
    h[n] = makes[n] ? element_at(initial_h, offset + n * 8 * kUnits) : 0.0f;
    c[n] = makes[n] ? element_at(initial_c, offset + n * 8 * kUnits) : 0.0f;
    length[n] = makes[n] ? length_at(lengths, sequence + n * 8, steps) : 0;
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate)
      if (makes[n]) now[n][gate] = widen(x_at[n * kNextTile + gate * kUnits]);
  }

  constexpr int kSends = (Shape::kBlocks * 8 + 31) / 32;
  RecurrentParcel parcels[kColumnTiles][kSends];
  int sends[kColumnTiles];
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    const int here = columns - n * 8 < 8 ? columns - n * 8 : 8;
    const int count = p.tile < Shape::kTiles && here > 0 ? here * Shape::kBlocks : 0;
    sends[n] = (count + 31) / 32;
#pragma unroll
    for (int send = 0; send < kSends; ++send) {
      const int at = send * 32 + p.lane;
      if (at >= count) continue;
      const int column = at % here;
      parcels[n][send] = {column, column % 2 * 16 + column / 2, static_cast<u32>(at / here), true};
    }
  }

  // Matmul q reads the state in buffer q % 2 and writes the other one.
  const i64 products = steps * Cell::kProducts;
  float accumulators[kColumnTiles][4];
  const auto multiply = [&](i64 q) {
    const u32 which = static_cast<u32>(q) & 1;
    if (q > 0 && Shape::kBlocks == 1) __syncthreads();
    if (q > 0 && Shape::kBlocks > 1) {
      wait_for_phase(barriers + which * 8, static_cast<u32>((q - 1) >> 1) & 1);
      if (threadIdx.x == 0 && q + 2 < products) expect_arrivals(barriers + which * 8, bytes);
    }
    const unsigned char* const state = shared + which * Shape::kStateBytes;
    if constexpr (Shape::kSize == 4)
      multiply_recurrent_f32<Shape>(weights, state, staged, p.lane, columns, accumulators);
    else
      multiply_recurrent<Shape>(weights, state, staged, p.lane, columns, accumulators);
  };
  const auto send = [&](i64 q, int n, float value) {
    if (q + 1 == products) return;
    const u32 other = (static_cast<u32>(q) & 1) ^ 1;
    send_states<Shape>(makes[n] ? value : 0.0f, p, parcels[n], sends[n],
                       shared + other * Shape::kStateBytes + n * 8 * Shape::kColumnBytes,
                       barriers + other * 8);
  };
#pragma unroll 1
  for (i64 s = 0; s < steps; ++s) {
    float next[kColumnTiles][4] = {};
    x_at += backwards ? -x_step : x_step;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n)
      if (makes[n] && s + 1 < steps) {
#pragma unroll
        for (int gate = 0; gate < kGates; ++gate)
          next[n][gate] = widen(x_at[n * kNextTile + gate * kUnits]);
      }
    const i64 last = (s + 1) * Cell::kProducts - 1;  // last matmul of this step
    const i64 t = backwards ? steps - 1 - s : s;
    float kept[kColumnTiles];
    if constexpr (Cell::kProducts == 2) {
      multiply(last - 1);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        float gates[4];
        gather_gates(accumulators[n], p.lane, gates);
        send(last - 1, n, Cell::template first<Gates>(now[n], gates, h[n], kept[n]));
      }
    }
    multiply(last);
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      float gates[4], new_h = h[n], new_c = c[n];
      gather_gates(accumulators[n], p.lane, gates);
      if constexpr (Cell::kProducts == 2)
        Cell::template second<Gates>(now[n], gates, kept[n], new_h);
      else
        Cell::template step<Gates>(now[n], gates, own_bias, new_h, new_c);
      const bool inside = t < length[n];
      h[n] = inside ? new_h : h[n];
      c[n] = inside ? new_c : c[n];
      send(last, n, h[n]);
      if (makes[n])
        store_at(
            y,
            ((t * Shape::kDirections + p.direction) * batch + sequence + n * 8) * kUnits + p.unit,
            inside ? new_h : 0.0f);
#pragma unroll
      for (int gate = 0; gate < kGates; ++gate) now[n][gate] = next[n][gate];
    }
  }
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n)
    if (makes[n]) {
      store_at(last_h, offset + n * 8 * kUnits, h[n]);
      if constexpr (Cell::kHasCell) store_at(last_c, offset + n * 8 * kUnits, c[n]);
    }
}
