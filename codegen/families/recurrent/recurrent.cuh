// A recurrent layer as one kernel that stays for all steps (sm_90 and later). A cluster of blocks
// has one direction and up to eight sequences. Each warp keeps the recurrent weights of four units,
// sixteen rows, in registers, what does not fit in shared memory, and multiplies them with the
// state of all units, which every block has in its shared memory, twice. The new state of four
// units goes to all blocks of the cluster by asynchronous stores, which an mbarrier in each block
// counts: no other barrier is needed, since no block sends the next state before it has all of this
// one, and with it the word that all warps of all blocks have read the state in front of it.
#pragma once

#include "approximate.cuh"
#include "cluster.cuh"
#include "mma.cuh"

/// An operand that is not given.
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

// ---- cells: what is kept of the gates, in ONNX's order. x: the input's part, h: the recurrent
// part
/// 1 / (1 + exp(-a)); 2^-21 relative.
SINTER_DEVICE float recurrent_sigmoid(float a) {
  return reciprocal_of_normal(1.0f + power_of_two(minimum(a * -1.44269504f, 120.0f)));
}
/// 2^-21 absolute.
SINTER_DEVICE float recurrent_tanh(float a) {
  return fmaf(2.0f, recurrent_sigmoid(2.0f * a), -1.0f);
}
struct LstmCell {
  static constexpr int kGates = 4;
  static constexpr bool kHasCell = true;
  SINTER_DEVICE static void step(const float (&x)[4], const float (&h)[4], const float (&)[4],
                                 float& state, float& cell) {
    const float in = recurrent_sigmoid(x[0] + h[0]), out = recurrent_sigmoid(x[1] + h[1]);
    const float forget = recurrent_sigmoid(x[2] + h[2]), fresh = recurrent_tanh(x[3] + h[3]);
    cell = fmaf(forget, cell, in * fresh);
    state = out * recurrent_tanh(cell);
  }
};
/// The reset gate is applied behind the product.
struct GruCell {
  static constexpr int kGates = 3;
  static constexpr bool kHasCell = false;
  SINTER_DEVICE static void step(const float (&x)[4], const float (&h)[4], const float (&bias)[4],
                                 float& state, float&) {
    const float update = recurrent_sigmoid(x[0] + h[0] + bias[0]);
    const float reset = recurrent_sigmoid(x[1] + h[1] + bias[1]);
    const float fresh = recurrent_tanh(fmaf(reset, h[2] + bias[2], x[2]));
    state = fmaf(update, state - fresh, fresh);
  }
};
struct RnnCell {
  static constexpr int kGates = 1;
  static constexpr bool kHasCell = false;
  SINTER_DEVICE static void step(const float (&x)[4], const float (&h)[4], const float (&)[4],
                                 float& state, float&) {
    state = recurrent_tanh(x[0] + h[0]);
  }
};

/// kUnits units in kDirections directions, the first of which runs backwards with kBackwards; the
/// schedule's integers: blocks of a cluster, warps of a block, and blocks of 32 weights of each row
/// that are in registers.
template <class T, class CellType, int kUnitCount, int kDirectionCount, bool kRunsBackwards,
          int kClusterBlocks, int kBlockWarps, int kHeldWeights>
struct RecurrentShape {
  typedef T Element;
  typedef CellType Cell;
  static constexpr int kUnits = kUnitCount, kDirections = kDirectionCount;
  static constexpr bool kBackwards = kRunsBackwards;
  static constexpr int kBlocks = kClusterBlocks, kWarps = kBlockWarps, kHeld = kHeldWeights;
  static constexpr int kColumns = 8;                 // sequences of a cluster
  static constexpr int kTiles = (kUnits + 3) / 4;    // of four units, each a warp's
  static constexpr int kDepth = (kUnits + 31) / 32;  // blocks of 32 weights of a row
  static constexpr int kStaged = kDepth - kHeld;     // of which so many are in shared memory
  // Sixteen bytes of every column are read at a time: odd multiples of 64 bytes meet in no bank.
  static constexpr int kColumnBytes = kDepth * 64 + (kDepth % 2 == 0 ? 64 : 0);
  static constexpr int kStateBytes = kColumns * kColumnBytes;
  static constexpr int kWeightBytes = kStaged * kWarps * 1024;
  static constexpr int kSharedBytes = 2 * kStateBytes + kWeightBytes + 16;
  static constexpr int kThreads = kWarps * 32;
  static_assert(kTiles <= kBlocks * kWarps, "every unit has a warp");
};

/// The weights of a lane: of rows lane / 4 and eight further down, eight neighbouring ones in every
/// block of 32. Row r of a tile is gate r / 8 + r % 8 / 4 * 2 of unit r % 4.
template <class Shape>
struct RecurrentWeights {
  uint4 held[Shape::kHeld > 0 ? Shape::kHeld : 1][2];
};

template <class Shape>
SINTER_DEVICE uint4 recurrent_row(const typename Shape::Element* row, bool valid, int k) {
  uint4 words = {0u, 0u, 0u, 0u};
  if (!valid || k >= Shape::kUnits) return words;
  if constexpr (Shape::kUnits % 8 == 0) {
    words = *reinterpret_cast<const uint4*>(row + k);
  } else {
    u32 pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 low = k + 2 * i < Shape::kUnits ? row[k + 2 * i].bits : 0u;
      const u32 high = k + 2 * i + 1 < Shape::kUnits ? row[k + 2 * i + 1].bits : 0u;
      pairs[i] = low | high << 16;
    }
    words = uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
  }
  return words;
}

/// Where a thread is.
template <class Shape>
struct RecurrentPlace {
  u32 rank, direction, slice;
  int warp, lane, tile, unit, column;  // the unit and column whose state it makes
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
      result.held[block][half] = recurrent_row<Shape>(rows[half], valid[half], block * 32 + first);
  if constexpr (Shape::kStaged > 0) {
    unsigned char* const staged =
        shared + 2 * Shape::kStateBytes + (p.warp * Shape::kStaged * 64 + p.lane) * 16;
#pragma unroll 4
    for (int block = 0; block < Shape::kStaged; ++block)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<uint4*>(staged + (block * 2 + half) * 512) =
            recurrent_row<Shape>(rows[half], valid[half], (Shape::kHeld + block) * 32 + first);
  }
}

// ---- the state on its way
/// Makes a barrier in shared memory ready for its first phase, one thread of the block.
SINTER_DEVICE void begin_arrivals(unsigned char* barrier) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], 1;\n"
      "fence.mbarrier_init.release.cluster;" ::"r"(shared_address(barrier))
      : "memory");
#endif
}
/// Says how many bytes come in its phase, one thread of the block.
SINTER_DEVICE void expect_arrivals(unsigned char* barrier, i32 bytes) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
#endif
}
SINTER_DEVICE void wait_for_phase(unsigned char* barrier, u32 parity) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  u32 done = 0;
  while (done == 0)
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
#endif
#else
  cluster_barrier();
#endif
}
/// Eight bytes to `to`, an address in this block's shared memory, of block `rank`.
SINTER_DEVICE void send_state(unsigned char* to, u32 low, u32 high, unsigned char* barrier,
                              u32 rank) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  u32 there, counted;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(to)), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(counted)
      : "r"(shared_address(barrier)), "r"(rank));
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
          there),
      "r"(low), "r"(high), "r"(counted)
      : "memory");
#endif
#else
  u32* const there = reinterpret_cast<u32*>(of_block(to, rank));
  there[0] = low;
  there[1] = high;
#endif
}

/// sums[16][8] of the tile: its weights times the state at `state`, of which `columns` are read.
template <class Shape>
SINTER_DEVICE void multiply_recurrent(const RecurrentWeights<Shape>& weights,
                                      const unsigned char* state, const unsigned char* staged,
                                      int lane, int columns, float (&sums)[4]) {
  typedef typename Shape::Element T;
  constexpr int kChains = 4;  // of products that wait for each other
  float parts[kChains][4] = {};
  const bool reads = lane / 4 < columns;
  const unsigned char* const column = state + lane / 4 * Shape::kColumnBytes + lane % 4 * 16;
#pragma unroll
  for (int block = 0; block < Shape::kDepth; ++block) {
    uint4 b = {0u, 0u, 0u, 0u};
    if (reads) b = load_shared_x4(column + block * 64);
    uint4 low, high;
    if (block < Shape::kHeld) {
      low = weights.held[block < Shape::kHeld ? block : 0][0];
      high = weights.held[block < Shape::kHeld ? block : 0][1];
    } else {
      low = load_shared_x4(staged + (block - Shape::kHeld) * 1024);
      high = load_shared_x4(staged + (block - Shape::kHeld) * 1024 + 512);
    }
    const u32 first[4] = {low.x, high.x, low.y, high.y};
    const u32 second[4] = {low.z, high.z, low.w, high.w};
    mma_16x8x16<T>(parts[block * 2 % kChains], first, b.x, b.y);
    mma_16x8x16<T>(parts[(block * 2 + 1) % kChains], second, b.z, b.w);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] = (parts[0][i] + parts[1][i]) + (parts[2][i] + parts[3][i]);
}

/// All steps. Operands as ir/ops/recurrent.cpp has them; those not given are Absent.
template <class Shape, class Bias, class StateH, class StateC, class Lengths, class Y, class LastH,
          class LastC>
SINTER_DEVICE void run_recurrent(const RecurrentWeights<Shape>& weights,
                                 const typename Shape::Element* x, Bias bias, StateH initial_h,
                                 StateC initial_c, Lengths lengths, Y* y, LastH last_h,
                                 LastC last_c, i64 steps, i64 batch) {
  typedef typename Shape::Element T;
  typedef typename Shape::Cell Cell;
  constexpr int kUnits = Shape::kUnits, kGates = Cell::kGates;
  SINTER_DYNAMIC_SHARED(shared);
  const auto p = RecurrentPlace<Shape>::here();
  unsigned char* const barriers = shared + 2 * Shape::kStateBytes + Shape::kWeightBytes;
  const unsigned char* const staged =
      shared + 2 * Shape::kStateBytes + (p.warp * Shape::kStaged * 64 + p.lane) * 16;
  const i64 first = i64(p.slice) * Shape::kColumns;
  const int columns =
      static_cast<int>(batch - first < Shape::kColumns ? batch - first : Shape::kColumns);
  const bool backwards = Shape::kBackwards != (p.direction == 1);
  const i32 bytes = Shape::kTiles * columns * 8;

  // Both states are zero where no unit is; the first holds the initial one.
  for (int i = threadIdx.x; i < 2 * Shape::kStateBytes / 16; i += Shape::kThreads)
    *reinterpret_cast<uint4*>(shared + i * 16) = uint4{0u, 0u, 0u, 0u};
  if (threadIdx.x == 0) {
    begin_arrivals(barriers);
    begin_arrivals(barriers + 8);
    expect_arrivals(barriers, bytes);
    expect_arrivals(barriers + 8, bytes);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < columns * kUnits; i += Shape::kThreads) {
    const i64 at = (i64(p.direction) * batch + first) * kUnits + i;
    *reinterpret_cast<T*>(shared + i / kUnits * Shape::kColumnBytes + i % kUnits * 2) =
        narrow<T>(element_at(initial_h, at));
  }
  // Behind this the barriers of all blocks are ready.
  __syncthreads();
  cluster_barrier();

  const bool makes = p.unit < kUnits && p.column < columns;
  const i64 sequence = first + p.column;
  const i64 place = (i64(p.direction) * batch + sequence) * kUnits + p.unit;
  float h = makes ? element_at(initial_h, place) : 0.0f;
  float c = makes ? element_at(initial_c, place) : 0.0f;
  const i64 length = makes ? length_at(lengths, sequence, steps) : 0;
  float own_bias[4] = {};
  const i64 x_step = batch * Shape::kDirections * kGates * kUnits;
  const T* x_at = x + (sequence * Shape::kDirections + p.direction) * kGates * kUnits + p.unit;
  if (backwards) x_at += (steps - 1) * x_step;
  float now[4] = {};
#pragma unroll
  for (int gate = 0; gate < kGates; ++gate)
    if (makes) {
      own_bias[gate] = element_at(bias, (i64(p.direction) * kGates + gate) * kUnits + p.unit);
      now[gate] = widen(x_at[gate * kUnits]);
    }
  // Four units of a column are sent together, to one block after the other.
  constexpr int kSends = (Shape::kBlocks * Shape::kColumns + 31) / 32;
  const int parcels = p.tile < Shape::kTiles ? columns * Shape::kBlocks : 0;

#pragma unroll 1
  for (i64 s = 0; s < steps; ++s) {
    const u32 which = static_cast<u32>(s) & 1;
    const bool is_last = s + 1 == steps;
    float next[4] = {};
    x_at += backwards ? -x_step : x_step;
    if (makes && !is_last) {
#pragma unroll
      for (int gate = 0; gate < kGates; ++gate) next[gate] = widen(x_at[gate * kUnits]);
    }
    if (s > 0) {
      wait_for_phase(barriers + which * 8, static_cast<u32>((s - 1) >> 1) & 1);
      if (threadIdx.x == 0 && s + 2 < steps) expect_arrivals(barriers + which * 8, bytes);
    }
    float sums[4];
    multiply_recurrent<Shape>(weights, shared + which * Shape::kStateBytes, staged, p.lane, columns,
                              sums);
    // The upper half of the lanes has gates 2 and 3 of both columns, and makes the second column.
    const bool upper = p.lane >= 16;
    const float mine0 = upper ? sums[1] : sums[0], mine1 = upper ? sums[3] : sums[2];
    const float got0 = __shfl_xor_sync(0xffffffffu, upper ? sums[0] : sums[1], 16);
    const float got1 = __shfl_xor_sync(0xffffffffu, upper ? sums[2] : sums[3], 16);
    const float gates[4] = {upper ? got0 : mine0, upper ? got1 : mine1, upper ? mine0 : got0,
                            upper ? mine1 : got1};
    float new_h = h, new_c = c;
    Cell::step(now, gates, own_bias, new_h, new_c);
    const i64 t = backwards ? steps - 1 - s : s;
    const bool inside = t < length;
    h = inside ? new_h : h;
    c = inside ? new_c : c;
    if (!is_last) {
      const u32 bits = makes ? narrow<T>(h).bits : 0u;
      const u32 pair = bits | __shfl_xor_sync(0xffffffffu, bits, 4) << 16;
#pragma unroll
      for (int send = 0; send < kSends; ++send) {
        if (send * 32 >= parcels) break;
        const int parcel = send * 32 + p.lane;
        const int column = parcel < parcels ? parcel % columns : 0;
        const int from = column % 2 * 16 + column / 2;
        const u32 low = __shfl_sync(0xffffffffu, pair, from);
        const u32 high = __shfl_sync(0xffffffffu, pair, from + 8);
        if (parcel < parcels)
          send_state(
              shared + (which ^ 1) * Shape::kStateBytes + column * Shape::kColumnBytes + p.tile * 8,
              low, high, barriers + (which ^ 1) * 8, static_cast<u32>(parcel / columns));
      }
    }
    if (makes)
      store_at(y, ((t * Shape::kDirections + p.direction) * batch + sequence) * kUnits + p.unit,
               inside ? new_h : 0.0f);
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) now[gate] = next[gate];
  }
  if (!makes) return;
  store_at(last_h, place, h);
  if constexpr (Cell::kHasCell) store_at(last_c, place, c);
}
