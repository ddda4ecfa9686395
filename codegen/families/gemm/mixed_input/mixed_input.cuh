// SPDX-License-Identifier: Apache-2.0
// A GEMM tile of warpgroups with packed weights (wgmma, sm_90a). Weights are the A operand, widened
// to floats in registers; rows of x are the B operand in shared memory. A producer warp issues TMA
// copies of x; each consumer warp copies its own weights. The accumulators end up in shared memory
// (tile_accumulators.cuh). widen_to_halves.cuh and widen_to_float8.cuh define the float type of the
// weights and where scales apply.
#pragma once

#include "packed_weights.cuh"
#include "tensor_map.cuh"
#include "tile_accumulators.cuh"

#ifdef SINTER_WARPGROUPS

/// kM rows by kN columns; x is copied kK of k at a time. Columns belong to kParts equal, adjacent
/// parts, as in SmallMTile. kGroups warpgroups divide the columns; kSplitK adjacent blocks of a
/// cluster divide k; kResident blocks fit a multiprocessor. A warp copies its own weights, kAhead
/// parts of k ahead; a part is 128 bytes of a row of x. Scales of whole columns apply to the
/// accumulators.
///
/// Widening: the conversion of weights, with
///   X, Weights, Scaling: elements of x, and what weights and scales are stored as (Packed..);
/// Zero: storage type of zero points;
/// kUnits: a weight's value / its converted value; kFactorUnits: the same where columns have
/// factors; Mainloop<Tile>: multiply_stages(accumulators, shared, operands), run by the consumer
/// warps.
template <class Widening, int kM, int kN, int kK, int kGroups, int kStages, int kAhead, int kSplitK,
          int kResident = 1, int kParts = 1>
struct MixedInputTile {
  typedef typename Widening::X X;
  typedef typename Widening::Weights Weights;
  typedef typename Widening::Scaling Scaling;
  typedef typename Widening::Zero Zero;
  typedef typename Scaling::Stored S;
  typedef ColumnsOfParts<kN, kParts> Columns;
  static constexpr int kWorkers = 128 * kGroups, kThreads = kWorkers + 128;
  // Registers of a thread: initially; of the producer; of consumers.
  static constexpr int kShare = 65536 / (kThreads * kResident) / 8 * 8;
  static constexpr int kFew = 24, kRest = (kShare * (kGroups + 1) - kFew) / kGroups / 8 * 8;
  static constexpr int kMany = kRest < 240 ? kRest : 240;
  static constexpr int kTiles = kN / (64 * kGroups);  // of 64 columns, per warpgroup
  static constexpr int kRows = kM % 128 == 0 ? 128 : kM % 96 == 0 ? 96 : 64;  // of one MMA
  static constexpr int kProducts = kM / kRows;
  static constexpr int kBytesX = static_cast<int>(sizeof(X)), kPart = 128 / kBytesX;  // of k
  static constexpr int kPartsOfStage = kK / kPart;
  static_assert(kN % (64 * kGroups) == 0, "warps multiply blocks of 16 columns");
  static_assert(kM % kRows == 0 && kStages >= 2 && kAhead >= 2, "as wgmma has it");
  static_assert(kK == kPart || kK == 2 * kPart, "stages are blocks of 128 bytes of rows");

  static constexpr int kGroup = Scaling::kGroup;
  static constexpr bool kGrouped = kGroup > 0;
  static constexpr bool kByColumn = Scaling::kScaled && (!kGrouped || Scaling::kFactors);
  static constexpr int kFold = fold_of<Scaling>(kPart), kFolds = kPart / kFold;

  static constexpr int kStageBytes = kM * kK * kBytesX;
  // A warp's weights of a part, 16 columns in each tile, with their scales and zero points.
  static constexpr int kWeightBytes = kPart / Weights::kUnitDepth * 512;
  static constexpr int kScaleBytes = kGrouped ? kFolds * 16 * static_cast<int>(sizeof(S)) : 0;
  static constexpr int kZeroBytes =
      Scaling::kZeros ? kFolds * 16 * static_cast<int>(sizeof(Zero)) : 0;
  static constexpr int kScalesAt = kTiles * kWeightBytes;
  static constexpr int kZerosAt = kScalesAt + kTiles * kScaleBytes;
  static constexpr int kSlotBytes = kZerosAt + kTiles * kZeroBytes;
  static constexpr int kRingBytes = kWorkers / 32 * kAhead * kSlotBytes;
  // Tiles are aligned to 1024 bytes.
  static constexpr int kAccumulatorStride = kN + 4, kSumBytes = kM * kAccumulatorStride * 4;
  static constexpr int kFilledBytes = kStages * kStageBytes + kRingBytes;
  static constexpr int kBodyBytes =
      ((kFilledBytes > kSumBytes ? kFilledBytes : kSumBytes) + 15) / 16 * 16;
  static constexpr int kSharedBytes = 1024 + kBodyBytes + 2 * kStages * 16;

  /// Operands of a block: weights and scales from its first column on, at k = 0.
  struct Operands {
    const TensorMap* a;
    i32 row;  // first row of the tile
    const void* b;
    i64 stride_b;  // bytes between groups of 16 columns
    const S* scales;
    const Zero* zeros;
    i64 stride_scales;        // between groups of 16 columns, in elements
    i64 part_b, part_scales;  // between parts, in units of the strides
    i32 columns;              // remaining columns of a part from the tile on; may exceed the tile
    i32 begin, end;           // of k
    const float* factors;
    i64 part_factors;
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
  /// The buffer of the warp's weights.
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
  /// An even number of parts: packed weights are padded, and x is zero there.
  SINTER_DEVICE static int count_steps(const Operands& x) {
    return x.end > x.begin ? (x.end - x.begin + 2 * kPart - 1) / (2 * kPart) * (2 * kPart / kK) : 0;
  }
  SINTER_DEVICE static int count_parts(const Operands& x) { return count_steps(x) * kPartsOfStage; }
  /// The thread that copies x; the rest of its warpgroup idles, as registers are set by warpgroup.
  SINTER_DEVICE static bool is_producer() { return threadIdx.x == kWorkers; }

  /// Address of the units of the 16 columns at `n`; that of the first for columns past the end.
  SINTER_DEVICE static i64 unit_at(const Operands& x, int n, i64 stride, i64 part) {
    return Columns::within_part(n) < x.columns ? Columns::unit_at(n, stride, part) : 0;
  }
  /// First of the warp's 16 columns in tile `i` of its warpgroup.
  SINTER_DEVICE static int column_of(int i) {
    const int warp = threadIdx.x / 32;
    return ((warp / 4 * kTiles + i) * 4 + warp % 4) * 16;
  }

  /// Starts copies of the groups' values in a part, 16 adjacent columns each.
  template <class V>
  SINTER_DEVICE static void copy_groups(const V* values, i64 unit, unsigned char* to, i32 k) {
    constexpr int kEach = 16 / static_cast<int>(sizeof(V)), kPieces = 16 / kEach;
    constexpr bool kFollow = kFold == kGroup || kFold == kPart;  // consecutive groups
    static_assert(kFolds * kPieces <= 32, "each lane copies one piece");
    const int lane = threadIdx.x % 32;
    if (lane >= kFolds * kPieces) return;
    const i64 at = kFollow ? static_cast<i64>(k / kGroup) * 16 + lane * kEach
                           : static_cast<i64>((k + lane / kPieces * kFold) / kGroup) * 16 +
                                 lane % kPieces * kEach;
    cp_async<16>(to + lane * 16, values + unit + at);
  }
  /// Starts the copy of the warp's weights of a part: each lane copies what it will read; some copy
  /// scales.
  SINTER_DEVICE static void copy_weights(const Operands& x, unsigned char* shared, int slot,
                                         i32 k) {
    const int lane = threadIdx.x % 32;
    unsigned char* const to = slot_of(shared, slot);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const unsigned char* from = static_cast<const unsigned char*>(x.b) +
                                  unit_at(x, column_of(i), x.stride_b, x.part_b) +
                                  static_cast<i64>(k / Weights::kUnitDepth) * 512 + lane * 16;
#pragma unroll
      for (int unit = 0; unit < kWeightBytes; unit += 512)
        cp_async<16>(to + i * kWeightBytes + unit + lane * 16, from + unit);
      if constexpr (kGrouped) {
        const i64 unit = unit_at(x, column_of(i), x.stride_scales, x.part_scales);
        copy_groups(x.scales, unit, to + kScalesAt + i * kScaleBytes, k);
        if constexpr (Scaling::kZeros)
          copy_groups(x.zeros, unit, to + kZerosAt + i * kZeroBytes, k);
      }
    }
  }
  SINTER_DEVICE static void copy_rows(const Operands& x, unsigned char* shared, int stage, i32 k) {
    full_of(shared)[stage].arrive_and_expect_tx(kStageBytes);
#pragma unroll
    for (int column = 0; column < kK; column += kPart) {
      const i32 at[2] = {k + column, x.row};
      tma_load(stage_of(shared, stage) + kM * column * kBytesX, *x.a, at, full_of(shared)[stage]);
    }
  }

  /// Starts the first copies. `kProgrammatic`: the kernel may start before the preceding one ends.
  /// Weights do not depend on that, so that their copies start before the wait.
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
        if (part < steps * kPartsOfStage) copy_weights(x, shared, part, x.begin + part * kPart);
        cp_async_commit();
      }
    }
    if (kProgrammatic) grid_dependency_wait();
    if (is_producer()) {
#pragma unroll 1
      for (int s = 0; s < kStages && s < steps; ++s) copy_rows(x, shared, s, x.begin + s * kK);
    }
    __syncthreads();  // all threads see the mbarriers
  }

  /// Advances to the next stage and the parity of its mbarriers.
  SINTER_DEVICE static void advance(int& stage, u32& phase) {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
  SINTER_DEVICE static void fill_stages(unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x);
    int stage = 0;
    u32 phase = 0;
#pragma unroll 1
    for (int s = kStages; s < steps; ++s) {
      free_of(shared)[stage].wait(phase);
      copy_rows(x, shared, stage, x.begin + s * kK);
      advance(stage, phase);
    }
  }
  SINTER_DEVICE static void release(unsigned char* shared, int stage) {
    if (threadIdx.x % 32 == 0) free_of(shared)[stage].arrive();
  }

  /// Waits for the weights of part `s` in `slot`, then starts the copy that replaces the previous
  /// ones.
  SINTER_DEVICE static void next_weights(unsigned char* shared, const Operands& x, int s, int parts,
                                         int slot) {
    cp_async_wait<kAhead - 2>();
    __syncwarp();
    const int ahead = s + kAhead - 1;
    if (ahead < parts)
      copy_weights(x, shared, slot == 0 ? kAhead - 1 : slot - 1, x.begin + ahead * kPart);
    cp_async_commit();
  }
  SINTER_DEVICE static void advance(int& slot) {
    if (++slot == kAhead) slot = 0;
  }

  /// The lane's part of unit `unit` of tile `i` in a slot.
  SINTER_DEVICE static uint4 load_unit(const unsigned char* slot, int i, int unit) {
    const int lane = threadIdx.x % 32;
    return load_shared_x4(slot + i * kWeightBytes + unit * 512 + lane * 16);
  }
  /// Scales, or zero points, of a group in a slot, for the 16 columns of tile `i`.
  SINTER_DEVICE static const unsigned char* scales_of(const unsigned char* slot, int i, int fold) {
    return slot + kScalesAt + i * kScaleBytes + fold * (kScaleBytes / kFolds);
  }
  SINTER_DEVICE static const unsigned char* zeros_of(const unsigned char* slot, int i, int fold) {
    return slot + kZerosAt + i * kZeroBytes + fold * (kZeroBytes / kFolds);
  }

  typedef float Products[kRows / 8][4];
  typedef Products Accumulators[kTiles][kProducts];

  SINTER_DEVICE static void store_accumulators(const Accumulators& accumulators,
                                               unsigned char* shared,
                                               const float (&scales)[kTiles][2]) {
    const int lane = threadIdx.x % 32;
    float* const first =
        reinterpret_cast<float*>(body_of(shared)) + lane % 4 * 2 * kAccumulatorStride;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      float* const own = first + column_of(i) + lane / 4;
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

  /// After begin(): fills `shared` with the block's accumulators, which sum() reads.
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
          const int lane = threadIdx.x % 32 / 4;
          if constexpr (Scaling::kFactors) {
            const float* const own =
                x.factors + unit_at(x, column_of(i), 16, x.part_factors) + lane;
            scales[i][0] = own[0] * Widening::kFactorUnits;
            scales[i][1] = own[8] * Widening::kFactorUnits;
          } else {
            const S* const own =
                x.scales + unit_at(x, column_of(i), x.stride_scales, x.part_scales) + lane;
            scales[i][0] = widen(own[0]) * Widening::kUnits;
            scales[i][1] = widen(own[8]) * Widening::kUnits;
          }
        }
      }
      Accumulators accumulators = {};
      Widening::template Mainloop<MixedInputTile>::multiply_stages(accumulators, shared, x);
      // The accumulators overwrite the stages.
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
