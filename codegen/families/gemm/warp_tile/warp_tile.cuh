// SPDX-License-Identifier: Apache-2.0
// A GEMM tile on tensor cores of warps. The accumulators end up in shared memory, and the
// epilogue's threads read them in any order.
#pragma once

#include "reduce.cuh"
#include "staged_tile.cuh"
#include "tile_accumulators.cuh"

/// kM x kN accumulators over k, kK at a time. kWarpsM x kWarpsN warps divide the tile, and kWarpsK
/// of each divide a step's k. kSplitK adjacent blocks of a cluster divide the whole k. Partial
/// accumulators are added in a fixed order. Other arguments: see StagedTile. kScaled: a warp's part
/// of a step is within one scale block of k, and the tile within one column group; their scales
/// multiply its MMAs. Operands of float are rounded to TF32.
template <class A, class B, int kM, int kN, int kK, int kWarpsM, int kWarpsN, int kWarpsK,
          int kStages, int kSplitK, bool kRowsAreK, int kVectorA, int kVectorB,
          class Left = DenseRows, bool kScaled = false>
struct WarpTile : StagedTile<A, B, kM, kN, kK, 32 * kWarpsM * kWarpsN * kWarpsK, kStages, kRowsAreK,
                             kVectorA, kVectorB, Left, kScaled> {
  typedef StagedTile<A, B, kM, kN, kK, 32 * kWarpsM * kWarpsN * kWarpsK, kStages, kRowsAreK,
                     kVectorA, kVectorB, Left, kScaled>
      Staged;
  typedef typename Staged::Operands Operands;
  typedef SumOf<A> Sum;
  static constexpr int kDepth = kFragmentDepth<A>;  // k's of a fragment
  static constexpr int kTilesM = kM / kWarpsM / 16, kTilesN = kN / kWarpsN / 8;
  static constexpr int kWarpK = kK / kWarpsK;
  static_assert(kM % (16 * kWarpsM) == 0 && kN % (8 * kWarpsN) == 0 && kK % (kDepth * kWarpsK) == 0,
                "warps multiply tiles of 16 x 8 x 32 bytes");
  static constexpr int kUnit = Staged::kUnit, kStrideA = Staged::kStrideA;
  static constexpr int kStrideB = Staged::kStrideB;
  static constexpr int kAccumulatorStride = kN + 8;
  static constexpr int kSumBytes = kWarpsK * kM * kAccumulatorStride * 4;
  static constexpr int kSharedBytes =
      Staged::kStageBytes > kSumBytes ? Staged::kStageBytes : kSumBytes;

  typedef Sum Accumulators[kTilesM][kTilesN][4];

  /// The fragments of b of kTilesN tiles from column `first` on, at `k`.
  SINTER_DEVICE static void load_right(u32 (&right)[kTilesN][2], const B* b, int k, int first) {
    const int lane = threadIdx.x % 32;
    if constexpr (Staged::kBByRows && sizeof(B) == 4) {  // ldmatrix transposes 16-bit elements only
      b += (k + lane % 4) * kStrideB + first + lane / 4;
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) {
        memcpy(&right[j][0], b + j * 8, 4);
        memcpy(&right[j][1], b + j * 8 + 4 * kStrideB, 4);
      }
      return;
    }
#pragma unroll
    for (int j = 0; j + 1 < kTilesN; j += 2) {
      const int n = first + j * 8;
      u32 both[4];
      if constexpr (Staged::kBByRows)
        load_matrix_x4_transposed(both, b + (k + lane % 16) * kStrideB + n + lane / 16 * 8);
      else
        load_matrix_x4(both,
                       b + (n + lane % 8 + lane / 16 * 8) * kStrideB + k + lane / 8 % 2 * kUnit);
      right[j][0] = both[0];
      right[j][1] = both[1];
      right[j + 1][0] = both[2];
      right[j + 1][1] = both[3];
    }
    if constexpr (kTilesN % 2 != 0) {
      const int n = first + (kTilesN - 1) * 8;
      if constexpr (Staged::kBByRows)
        load_matrix_x2_transposed(right[kTilesN - 1], b + (k + lane % 16) * kStrideB + n);
      else
        load_matrix_x2(right[kTilesN - 1],
                       b + (n + lane % 8) * kStrideB + k + lane / 8 % 2 * kUnit);
    }
  }

  /// This warp's MMAs of one stage.
  SINTER_DEVICE static void multiply_stage(Accumulators& accumulators, const A* stage) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_n = warp % kWarpsN, warp_m = warp / kWarpsN % kWarpsM;
    const int warp_k = warp / (kWarpsN * kWarpsM);
    const A* a = stage + (warp_m * kTilesM * 16 + lane % 16) * kStrideA + lane / 16 * kUnit;
    const B* b = Staged::b_of(stage);
#pragma unroll
    for (int step = 0; step < kWarpK; step += kDepth) {
      const int k = warp_k * kWarpK + step;
      u32 left[kTilesM][4], right[kTilesN][2];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) load_matrix_x4(left[i], a + i * 16 * kStrideA + k);
      load_right(right, b, k, warp_n * kTilesN * 8);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int j = 0; j < kTilesN; ++j)
          mma_fragments<A, B>(accumulators[i][j], left[i], right[j][0], right[j][1]);
    }
  }

  /// The same with block scales; `k`: where the stage begins.
  SINTER_DEVICE static void multiply_scaled(Accumulators& accumulators, const A* stage,
                                            const Operands& x, i32 k) {
    static_assert(!kScaled || BlockScales<kScaled>::kDepth % kWarpK == 0, "one block of k");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i32 block = (k + warp / (kWarpsN * kWarpsM) * kWarpK) / BlockScales<kScaled>::kDepth;
    if (block >= x.scales.blocks) return;  // past the last
    const float column = x.scales.of_column(0, block);
    float scales[kTilesM][2];
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const i32 row = (warp / kWarpsN % kWarpsM * kTilesM + i) * 16 + half * 8 + lane / 4;
        scales[i][half] = x.scales.of_row(row, block) * column;
      }
    Accumulators parts = {};
    multiply_stage(parts, stage);
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kTilesN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          accumulators[i][j][e] = fmaf(parts[i][j][e], scales[i][e / 2], accumulators[i][j][e]);
  }

  /// After begin(): fills `shared` with the block's accumulators, which sum() reads.
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    Accumulators accumulators = {};
    Staged::run(shared, x, [&](const A* stage, i32 k) {
      if constexpr (kScaled)
        multiply_scaled(accumulators, stage, x, k);
      else
        multiply_stage(accumulators, stage);
    });
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_n = warp % kWarpsN, warp_m = warp / kWarpsN % kWarpsM;
    Sum* part =
        reinterpret_cast<Sum*>(shared) +
        (warp / (kWarpsN * kWarpsM) * kM + warp_m * kTilesM * 16 + lane / 4) * kAccumulatorStride +
        warp_n * kTilesN * 8 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kTilesN; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Vec<Sum, 2> pair = {
              {accumulators[i][j][half * 2], accumulators[i][j][half * 2 + 1]}};
          store(part + (i * 16 + half * 8) * kAccumulatorStride + j * 8, pair);
        }
    if (kSplitK > 1)
      cluster_barrier();
    else
      __syncthreads();
  }

  typedef TileAccumulators<kM, kAccumulatorStride, kWarpsK, kSplitK, Sum> Totals;
  SINTER_DEVICE static const Sum* accumulators_of(unsigned char* shared) {
    return reinterpret_cast<const Sum*>(shared);
  }
};

/// Reduces a row over the kLanes adjacent lanes that share it in a block, and over the kAcross
/// blocks of the cluster that hold its columns. `rank` as above, with kSplitK blocks for each.
/// Every lane gets the result. `scratch`: one value for each lane group of the block, used
/// once.
template <class Combine, int kLanes, int kAcross, int kSplitK, class T>
SINTER_DEVICE T reduce_tile_row(T x, T* scratch, u32 rank) {
  x = reduce_lanes<Combine, kLanes>(x);
  if (kAcross == 1) return x;
  const int group = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  if (lane == 0) scratch[group] = x;
  cluster_barrier();
  // Each lane loads from different blocks: the latencies overlap.
  T all = Combine::template identity<T>();
#pragma unroll
  for (int first = 0; first < kAcross; first += kLanes) {
    const int block = first + lane;
    if (block < kAcross)
      all = Combine::of(
          all, of_block(scratch, static_cast<u32>(block * kSplitK) + rank % kSplitK)[group]);
  }
  return reduce_lanes<Combine, kLanes>(all);
}
