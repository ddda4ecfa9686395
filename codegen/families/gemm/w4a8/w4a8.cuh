// A tile of a product of weights of 4 bits and rows of x of 8-bit floats, by warpgroups (wgmma:
// sm_90a). Weights are the left operand: integers that become e4m3 in registers, exactly; rows of x
// are the right one, in shared memory. The sums of each group of k are multiplied by the group's
// scales and added up in float32 registers. A warp has the copy engine fill the stages of x; the
// accumulators end up in shared memory as those of warp_tile.cuh do.
#pragma once

#include "eight_bit_warpgroup.cuh"
#include "small_m.cuh"
#include "tensor_map.cuh"

// ---- weights
/// The highest bit of each byte, in all of its bits.
SINTER_DEVICE u32 spread_signs(u32 bytes) {
#ifdef __CUDACC__
  u32 result;
  asm("prmt.b32 %0, %1, %1, 0xba98;" : "=r"(result) : "r"(bytes));
  return result;
#else
  return (bytes >> 7 & 0x01010101u) * 0xffu;
#endif
}

/// Numbers 0 .. 15 in the bytes of `numbers`, less a zero point of 0 .. 15, as e4m3 of a 512th of
/// it: a code below 16 is so many times the smallest number, 2^-9. `offset`: 0x80 less the zero
/// point in each byte.
SINTER_DEVICE u32 float8_of_numbers(u32 numbers, u32 offset) {
  const u32 shifted = numbers + offset;  // the highest bit: not negative
  const u32 positive = spread_signs(shifted);
  // What is not negative loses that bit; of others -x is ~x + 1.
  const u32 codes = (positive & (shifted ^ 0x80808080u)) | (~positive & ~shifted);
  return codes + (~positive & 0x01010101u);
}
/// What the codes stand for is so many times as large.
constexpr float kFloat8Units = 512;

/// The fragments of 32 of k, of two words that hold 16 each (PackedWeights for rows of 8 bits).
/// `offsets`: of the lane's two columns.
SINTER_DEVICE void widen_to_float8(u32 (&a)[4], u32 low, u32 high, const u32 (&offsets)[2]) {
  a[0] = float8_of_numbers(low & 0x0f0f0f0fu, offsets[0]);
  a[1] = float8_of_numbers(low >> 4 & 0x0f0f0f0fu, offsets[1]);
  a[2] = float8_of_numbers(high & 0x0f0f0f0fu, offsets[0]);
  a[3] = float8_of_numbers(high >> 4 & 0x0f0f0f0fu, offsets[1]);
}

#ifdef SINTER_WARPGROUPS

/// kM rows by kN columns, which are those of kParts equal parts of all side by side, as in
/// SmallMTile. kGroups warpgroups share the columns, kSplitK neighbouring blocks of a cluster share
/// k, of which a stage has 128; kResident blocks fit a multiprocessor. A warp copies its own
/// weights, kAhead times 128 of k. The sums of 32, 64 or 128 of k are promoted: of what shares a
/// scale, at most 128, as 8-bit tensor cores add with few bits.
template <class Scaling, int kM, int kN, int kGroups, int kStages, int kAhead, int kSplitK,
          int kResident = 1, int kParts = 1>
struct W4A8Tile {
  typedef typename Scaling::Stored S;
  static constexpr int kWorkers = 128 * kGroups, kThreads = kWorkers + 128;
  // Registers of a thread at first, of who copies x and of who multiplies.
  static constexpr int kShare = 65536 / (kThreads * kResident) / 8 * 8;
  static constexpr int kFew = 24, kRest = (kShare * (kGroups + 1) - kFew) / kGroups / 8 * 8;
  static constexpr int kMany = kRest < 240 ? kRest : 240;
  static constexpr int kTiles = kN / (64 * kGroups);  // of 64 columns, of a warpgroup
  static constexpr int kRows = kM % 128 == 0 ? 128 : kM % 96 == 0 ? 96 : 64;  // of one product
  static constexpr int kProducts = kM / kRows;
  static constexpr int kPart = 128;  // of k: a stage of x, and the weights that are made at once
  static constexpr int kPartN = kN / kParts;
  static_assert(kN % (64 * kGroups) == 0 && kN % (16 * kParts) == 0,
                "warps multiply blocks of 16 columns");
  static_assert(kM % kRows == 0 && kStages >= 2 && kAhead >= 2, "as wgmma has it");

  static constexpr int kGroup = Scaling::kGroup;
  static constexpr bool kGrouped = kGroup > 0;
  static constexpr bool kByColumn = Scaling::kScaled && !kGrouped;
  static constexpr int common(int a, int b) { return b == 0 ? a : common(b, a % b); }
  static constexpr int kFold = kGrouped ? common(kGroup, kPart) : kPart;  // of k, promoted at once
  static constexpr int kFolds = kPart / kFold;
  static_assert(kFold % 32 == 0, "groups are whole products");

  static constexpr int kStageBytes = kM * kPart;
  // A warp's weights of a part, and their scales and zero points, which are f16.
  static constexpr int kBlockBytes = kPart / 64 * 512;
  static constexpr int kScaleBytes = kGrouped ? kFolds * 16 * static_cast<int>(sizeof(S)) : 0;
  static constexpr int kZeroBytes = Scaling::kZeros ? kFolds * 16 * 2 : 0;
  static constexpr int kSlotBytes = kTiles * (kBlockBytes + kScaleBytes + kZeroBytes);
  static constexpr int kRingBytes = kWorkers / 32 * kAhead * kSlotBytes;
  // Tiles begin at multiples of 1024 bytes.
  static constexpr int kAccumulatorStride = kN + 4, kSumBytes = kM * kAccumulatorStride * 4;
  static constexpr int kFilledBytes = kStages * kStageBytes + kRingBytes;
  static constexpr int kBodyBytes =
      ((kFilledBytes > kSumBytes ? kFilledBytes : kSumBytes) + 15) / 16 * 16;
  static constexpr int kSharedBytes = 1024 + kBodyBytes + 2 * kStages * 16;

  // Where registers are left, a part's weights are made while the one in front is multiplied.
  static constexpr int kSumRegisters = kTiles * kM / 2, kPartRegisters = kRows / 2;
  static constexpr bool kMakesAhead = kSumRegisters + kPartRegisters + 32 * kTiles <= 160;

  /// What a block multiplies: weights and scales from its first column on, at k = 0.
  struct Operands {
    const TensorMap* a;
    i32 row;  // the tile's first
    const void* b;
    i64 stride_b;  // bytes of 16 columns
    const S* scales;
    const f16* zeros;
    i64 stride_scales;        // of 16 columns, elements
    i64 part_b, part_scales;  // from one part to the next, in what the strides count
    i32 columns;              // that are left from the tile on, of a part; may exceed it
    i32 begin, end;           // of k
  };

  SINTER_DEVICE static unsigned char* body_of(unsigned char* shared) {
#ifdef __CUDACC__
    return shared + ((shared_address(shared) + 1023) / 1024 * 1024 - shared_address(shared));
#else
    return shared + (1024 - reinterpret_cast<unsigned long>(shared) % 1024) % 1024;
#endif
  }
  SINTER_DEVICE static unsigned char* stage_of(unsigned char* shared, int stage) {
    return body_of(shared) + stage * kStageBytes;
  }
  /// Of the warp's weights.
  SINTER_DEVICE static unsigned char* slot_of(unsigned char* shared, int slot) {
    return body_of(shared) + kStages * kStageBytes +
           (static_cast<int>(threadIdx.x) / 32 * kAhead + slot) * kSlotBytes;
  }
  SINTER_DEVICE static MBarrier* full_of(unsigned char* shared) {
    return reinterpret_cast<MBarrier*>(body_of(shared) + kBodyBytes);
  }
  SINTER_DEVICE static MBarrier* free_of(unsigned char* shared) {
    return full_of(shared) + kStages;
  }
  /// An even number of parts: packed weights have room for them, x is zero there.
  SINTER_DEVICE static int count_steps(const Operands& x) {
    return x.end > x.begin ? (x.end - x.begin + 2 * kPart - 1) / (2 * kPart) * 2 : 0;
  }
  /// The thread that copies x; others beside it wait, since registers are a warpgroup's.
  SINTER_DEVICE static bool is_producer() { return threadIdx.x == kWorkers; }

  /// Where column `n` of the tile is: in which part, and there.
  SINTER_DEVICE static int part_of(int n) { return kParts == 1 ? 0 : n / kPartN; }
  SINTER_DEVICE static int within_part(int n) { return kParts == 1 ? n : n % kPartN; }
  /// Where the block with column `n` lies; the first for columns that are not there.
  SINTER_DEVICE static i64 block_at(const Operands& x, int n, i64 stride, i64 part) {
    return within_part(n) < x.columns ? part_of(n) * part + within_part(n) / 16 * stride : 0;
  }

  /// Number of the warp's block in tile `i` of its warpgroup.
  SINTER_DEVICE static int block_of(int i) {
    const int warp = threadIdx.x / 32;
    return (warp / 4 * kTiles + i) * 4 + warp % 4;
  }

  /// Values of the groups of a part, 16 columns of each side by side; no more than the lanes.
  template <class V>
  SINTER_DEVICE static void copy_groups(const V* values, i64 block, unsigned char* to, i32 k) {
    constexpr int kEach = 16 / static_cast<int>(sizeof(V)), kPieces = 16 / kEach;
    const int lane = threadIdx.x % 32;
    if (lane >= kFolds * kPieces) return;
    const i32 group = (k + lane / kPieces * kFold) / kGroup;
    cp_async<16>(to + lane * 16,
                 values + block + static_cast<i64>(group) * 16 + lane % kPieces * kEach);
  }

  /// Starts to copy the warp's weights of a part: each lane what it reads, some of them scales.
  SINTER_DEVICE static void copy_weights(const Operands& x, unsigned char* shared, int slot,
                                         i32 k) {
    const int lane = threadIdx.x % 32;
    unsigned char* const to = slot_of(shared, slot);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const int column = block_of(i) * 16;
      const unsigned char* from = static_cast<const unsigned char*>(x.b) +
                                  block_at(x, column, x.stride_b, x.part_b) +
                                  static_cast<i64>(k / 64) * 512 + lane * 16;
#pragma unroll
      for (int unit = 0; unit < kBlockBytes; unit += 512)
        cp_async<16>(to + i * kBlockBytes + unit + lane * 16, from + unit);
      if constexpr (kGrouped) {
        const i64 block = block_at(x, column, x.stride_scales, x.part_scales);
        unsigned char* const groups = to + kTiles * kBlockBytes;
        copy_groups(x.scales, block, groups + i * kScaleBytes, k);
        if constexpr (Scaling::kZeros)
          copy_groups(x.zeros, block, groups + kTiles * kScaleBytes + i * kZeroBytes, k);
      }
    }
  }
  SINTER_DEVICE static void copy_rows(const Operands& x, unsigned char* shared, int stage, i32 k) {
    full_of(shared)[stage].arrive_and_expect_tx(kStageBytes);
    const i32 at[2] = {k, x.row};
    tma_load(stage_of(shared, stage), *x.a, at, full_of(shared)[stage]);
  }

  /// Starts the first copies. `kProgrammatic`: the kernel was launched before the one in front has
  /// ended, on which weights do not depend: they are fetched before that is waited for.
  template <bool kProgrammatic>
  SINTER_DEVICE static void begin(unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x);
    if (is_producer()) {
      for (int stage = 0; stage < kStages; ++stage) {
        full_of(shared)[stage].start(1);
        free_of(shared)[stage].start(kWorkers / 32);
      }
      fence_barrier_init();
      prefetch_tma_descriptor(*x.a);
    } else if (threadIdx.x < kWorkers) {
#pragma unroll 1
      for (int part = 0; part < kAhead - 1; ++part) {
        if (part < steps) copy_weights(x, shared, part, x.begin + part * kPart);
        cp_async_commit();
      }
    }
    if (kProgrammatic) grid_dependency_wait();
    if (is_producer()) {
#pragma unroll 1
      for (int s = 0; s < kStages && s < steps; ++s) copy_rows(x, shared, s, x.begin + s * kPart);
    }
    __syncthreads();  // all see the barriers
  }

  SINTER_DEVICE static void fill_stages(unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x);
    PipelineState<kStages> at;
#pragma unroll 1
    for (int s = kStages; s < steps; ++s) {
      free_of(shared)[at.stage].wait(at.phase);
      copy_rows(x, shared, at.stage, x.begin + s * kPart);
      at = at.next();
    }
  }

  typedef float Products[kRows / 8][4];
  typedef Products Accumulators[kTiles][kProducts];
  /// The weights of a part in one tile, and the scales of its groups' columns g and g + 8.
  struct Left {
    u32 fragments[kPart / 32][4];
    float scales[kFolds][2];
  };

  template <class V>
  SINTER_DEVICE static float value_of(const unsigned char* groups, int fold, int half) {
    return widen(reinterpret_cast<const V*>(
        groups)[fold * 16 + half * 8 + static_cast<int>(threadIdx.x) % 32 / 4]);
  }

  /// Tile `i` of the weights in a slot.
  SINTER_DEVICE static void load_left(Left& left, const unsigned char* slot, int i) {
    const int lane = threadIdx.x % 32;
    const unsigned char* const groups = slot + kTiles * kBlockBytes;
#pragma unroll
    for (int fold = 0; fold < kFolds; ++fold)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        left.scales[fold][half] =
            kGrouped ? value_of<S>(groups + i * kScaleBytes, fold, half) * kFloat8Units : 1;
#pragma unroll
    for (int unit = 0; unit < kPart / 64; ++unit) {
      const uint4 bits = load_shared_x4(slot + i * kBlockBytes + unit * 512 + lane * 16);
      const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        u32 offsets[2] = {0x78787878u, 0x78787878u};
        if constexpr (Scaling::kZeros) {
          const int fold = (unit * 64 + j * 32) / kFold;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float zero =
                value_of<f16>(groups + kTiles * kScaleBytes + i * kZeroBytes, fold, half);
            offsets[half] -= static_cast<u32>(static_cast<i32>(zero)) * 0x01010101u;
          }
        }
        widen_to_float8(left.fragments[unit * 2 + j], words[j * 2], words[j * 2 + 1], offsets);
      }
    }
  }

  /// Starts the products of one group of k with kRows rows of a stage.
  SINTER_DEVICE static void start(Products& products, const Left& left, const unsigned char* stage,
                                  int fold, int p) {
    const e4m3fn* const rows = reinterpret_cast<const e4m3fn*>(stage) + p * kRows * kPart;
    warpgroup_arrive();
#pragma unroll
    for (int j = 0; j < kFold / 32; ++j)
      wgmma_from_registers<e4m3fn>(products, left.fragments[fold * (kFold / 32) + j], rows,
                                   fold * kFold + j * 32, j > 0);
    warpgroup_commit();
  }

  SINTER_DEVICE static void promote(Products& sums, const Products& products,
                                    const float (&scales)[2]) {
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[j][e] = kGrouped ? fmaf(products[j][e], scales[e / 2], sums[j][e])
                              : sums[j][e] + products[j][e];
  }

  /// The products of tile `i` with a stage; `meanwhile` is done while the first are under way.
  template <class Meanwhile>
  SINTER_DEVICE static void multiply_part(Accumulators& sums, Products& products, Left& left,
                                          const unsigned char* stage, int i,
                                          const Meanwhile& meanwhile) {
#pragma unroll
    for (int fold = 0; fold < kFolds; ++fold)
#pragma unroll
      for (int p = 0; p < kProducts; ++p) {
        start(products, left, stage, fold, p);
        if (fold == 0 && p == 0) meanwhile();
        warpgroup_wait<0>();
        settle(products);
        settle(left.fragments);
        promote(sums[i][p], products, left.scales[fold]);
      }
  }

  /// Waits for the weights of part `s`, and starts to copy those that take the place of the last.
  SINTER_DEVICE static void next_slot(unsigned char* shared, const Operands& x, int s, int steps,
                                      int slot) {
    cp_async_wait<kAhead - 2>();
    __syncwarp();
    const int ahead = s + kAhead - 1;
    if (ahead < steps)
      copy_weights(x, shared, slot == 0 ? kAhead - 1 : slot - 1, x.begin + ahead * kPart);
    cp_async_commit();
  }

  /// `number`, of which the compiler knows nothing: what depends on it stays behind a branch, where
  /// ptxas does not move it behind the wait for products that are under way.
  SINTER_DEVICE static int unknown(int number) {
#ifdef __CUDACC__
    asm volatile("" : "+r"(number));
#endif
    return number;
  }

  SINTER_DEVICE static void multiply_stages(Accumulators& sums, unsigned char* shared,
                                            const Operands& x) {
    const int steps = count_steps(x);
    Products products = {};
    PipelineState<kStages> at;
    int slot = 0;  // of the weights that are made next
    const auto release = [&] {
      if (threadIdx.x % 32 == 0) free_of(shared)[at.stage].arrive();
      at = at.next();
    };
    if constexpr (kMakesAhead) {
      Left left[2][kTiles];
      const auto make = [&](int s, Left(&to)[kTiles]) {
        next_slot(shared, x, s, steps, slot);
#pragma unroll
        for (int i = 0; i < kTiles; ++i) load_left(to[i], slot_of(shared, slot), i);
        if (++slot == kAhead) slot = 0;
      };
      const auto turn = [&](int s, Left(&own)[kTiles], Left(&other)[kTiles]) {
        full_of(shared)[at.stage].wait(at.phase);
#pragma unroll
        for (int i = 0; i < kTiles; ++i)
          multiply_part(sums, products, own[i], stage_of(shared, at.stage), i, [&] {
            if (i == 0 && unknown(s + 1) < steps) make(s + 1, other);
          });
        release();
      };
      if (steps > 0) make(0, left[0]);
#pragma unroll 1
      for (int s = 0; s < steps; s += 2) {
        turn(s, left[0], left[1]);
        turn(s + 1, left[1], left[0]);
      }
    } else {
#pragma unroll 1
      for (int s = 0; s < steps; ++s) {
        next_slot(shared, x, s, steps, slot);
        Left left;
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          load_left(left, slot_of(shared, slot), i);
          if (i == 0) full_of(shared)[at.stage].wait(at.phase);
          multiply_part(sums, products, left, stage_of(shared, at.stage), i, [] {});
        }
        release();
        if (++slot == kAhead) slot = 0;
      }
    }
  }

  SINTER_DEVICE static void store_accumulators(const Accumulators& accumulators,
                                               unsigned char* shared,
                                               const float (&scales)[kTiles][2]) {
    const int lane = threadIdx.x % 32;
    float* const first =
        reinterpret_cast<float*>(body_of(shared)) + lane % 4 * 2 * kAccumulatorStride;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      float* const own = first + block_of(i) * 16 + lane / 4;
#pragma unroll
      for (int p = 0; p < kProducts; ++p)
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            own[(p * kRows + j * 8 + e % 2) * kAccumulatorStride + e / 2 * 8] =
                kByColumn ? accumulators[i][p][j][e] * scales[i][e / 2] : accumulators[i][p][j][e];
    }
  }

  /// Behind begin(): fills `shared` with the block's accumulators, to be read by sum().
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    if (threadIdx.x >= kWorkers) {
      set_registers<kFew, false>();
      if (is_producer()) fill_stages(shared, x);
      __syncwarp();
      __syncthreads();
      set_registers<kShare, true>();
    } else {
      set_registers<kMany, true>();
      float scales[kTiles][2] = {};
      if constexpr (kByColumn) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          const S* const own = x.scales +
                               block_at(x, block_of(i) * 16, x.stride_scales, x.part_scales) +
                               threadIdx.x % 32 / 4;
          scales[i][0] = widen(own[0]) * kFloat8Units;
          scales[i][1] = widen(own[8]) * kFloat8Units;
        }
      }
      Accumulators accumulators = {};
      multiply_stages(accumulators, shared, x);
      // The accumulators take the stages' place.
      __syncthreads();
      store_accumulators(accumulators, shared, scales);
      set_registers<kShare, false>();
    }
    if (kSplitK > 1)
      cluster_barrier();
    else
      __syncthreads();
  }

  typedef TileAccumulators<kM, kAccumulatorStride, 1, kSplitK> Totals;
  SINTER_DEVICE static const float* accumulators_of(unsigned char* shared) {
    return reinterpret_cast<const float*>(body_of(shared));
  }
};

#endif  // SINTER_WARPGROUPS
