// SPDX-License-Identifier: Apache-2.0
// An exact float32 GEMM tile: fused multiply-adds of CUDA cores, on operands that stream through
// shared memory. The epilogue's threads then read the accumulators there.
#pragma once

#include "implicit_gemm.cuh"
#include "tile_accumulators.cuh"

/// kM x kN accumulators over k, kK at a time. kWarpsM x kWarpsN warps divide the tile, and kWarpsK
/// of each divide a step's k. kSplitK adjacent blocks of a cluster divide the whole k. An
/// accumulator adds its products in the order of k, partial accumulators are added in a fixed
/// order. Other arguments: see StagedTile.
template <int kM, int kN, int kK, int kWarpsM, int kWarpsN, int kWarpsK, int kStages, int kSplitK,
          bool kRowsAreK, int kVectorA, int kVectorB, class Left = DenseRows>
struct SimtTile : StagedTile<float, float, kM, kN, kK, 32 * kWarpsM * kWarpsN * kWarpsK, kStages,
                             kRowsAreK, kVectorA, kVectorB, Left, false> {
  typedef StagedTile<float, float, kM, kN, kK, 32 * kWarpsM * kWarpsN * kWarpsK, kStages, kRowsAreK,
                     kVectorA, kVectorB, Left, false>
      Staged;
  typedef typename Staged::Operands Operands;
  typedef float Sum;
  // The threads of a warp are 4 along m and 8 along n. A thread's rows are 4 apart; so are its
  // columns 8 apart, or its groups of 4 columns 32 apart if b[k][n] has these contiguous.
  static constexpr int kThreadsM = 4, kThreadsN = 8, kAtOnce = 4;  // k's, or columns, of one load
  static constexpr int kRows = kM / kWarpsM / kThreadsM, kColumns = kN / kWarpsN / kThreadsN;
  static constexpr int kWarpK = kK / kWarpsK;
  // Loads that move ahead of the multiplications would need more registers than large tiles leave.
  static constexpr int kUnrolled = kRows * kColumns > 32 ? 1 : 4;
  static_assert(kM % (kThreadsM * kWarpsM) == 0 && kN % (kThreadsN * kWarpsN) == 0 &&
                    kK % (kAtOnce * kWarpsK) == 0 && (!kRowsAreK || kColumns % kAtOnce == 0),
                "threads multiply whole rows by whole loads");
  static constexpr int kAccumulatorStride = kN + 8;
  static constexpr int kSumBytes = kWarpsK * kM * kAccumulatorStride * 4;
  static constexpr int kSharedBytes =
      Staged::kStageBytes > kSumBytes ? Staged::kStageBytes : kSumBytes;

  typedef float Accumulators[kRows][kColumns];

  // Lanes that differ in bit 0 read the same of a, and those that differ in bit 1 the same of b:
  // the two halves of a load of 512 bytes are then one transaction.
  SINTER_DEVICE static int first_row() {
    const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 / kWarpsN % kWarpsM;
    return warp_m * kRows * kThreadsM + lane / 2 % 2 + lane / 16 * 2;
  }
  SINTER_DEVICE static int first_column() {
    const int lane = threadIdx.x % 32, warp_n = threadIdx.x / 32 % kWarpsN;
    return warp_n * kColumns * kThreadsN +
           (lane % 2 + lane / 4 % 4 * 2) * (kRowsAreK ? kAtOnce : 1);
  }
  SINTER_DEVICE static int part_of_k() { return threadIdx.x / 32 / (kWarpsN * kWarpsM); }
  /// Columns from the first to number `j`.
  SINTER_DEVICE static constexpr int column(int j) {
    return kRowsAreK ? j / kAtOnce * kAtOnce * kThreadsN + j % kAtOnce : j * kThreadsN;
  }

  /// b's elements of kAtOnce k's from `k` on and of this thread's columns.
  SINTER_DEVICE static void load_right(float (&right)[kAtOnce][kColumns], const SharedFloats& b,
                                       int k) {
    if constexpr (kRowsAreK) {
#pragma unroll
      for (int e = 0; e < kAtOnce; ++e)
#pragma unroll
        for (int j = 0; j < kColumns; j += kAtOnce) {
          float some[kAtOnce];
          b.load(some, (k + e) * Staged::kStrideB + column(j));
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) right[e][j + i] = some[i];
        }
    } else {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        float some[kAtOnce];
        b.load(some, column(j) * Staged::kStrideB + k);
#pragma unroll
        for (int e = 0; e < kAtOnce; ++e) right[e][j] = some[e];
      }
    }
  }

  SINTER_DEVICE static void multiply_stage(Accumulators& accumulators, const float* stage) {
    const int first_k = part_of_k() * kWarpK;
    const SharedFloats a(stage + first_row() * Staged::kStrideA + first_k);
    const SharedFloats b(Staged::b_of(stage) + (kRowsAreK
                                                    ? first_k * Staged::kStrideB + first_column()
                                                    : first_column() * Staged::kStrideB + first_k));
#pragma unroll kUnrolled
    for (int k = 0; k < kWarpK; k += kAtOnce) {
      float right[kAtOnce][kColumns];
      load_right(right, b, k);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        float left[kAtOnce];
        a.load(left, i * kThreadsM * Staged::kStrideA + k);
#pragma unroll
        for (int e = 0; e < kAtOnce; ++e)
#pragma unroll
          for (int j = 0; j < kColumns; ++j)
            accumulators[i][j] = fmaf(left[e], right[e][j], accumulators[i][j]);
      }
    }
  }

  /// After begin(): fills `shared` with the block's accumulators, which sum() reads.
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    Accumulators accumulators = {};
    Staged::run(shared, x, [&](const float* stage, i32) { multiply_stage(accumulators, stage); });
    float* part = reinterpret_cast<float*>(shared) +
                  (part_of_k() * kM + first_row()) * kAccumulatorStride + first_column();
    constexpr int kStored = kRowsAreK ? kAtOnce : 1;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; j += kStored) {
        Vec<float, kStored> some;
#pragma unroll
        for (int e = 0; e < kStored; ++e) some.v[e] = accumulators[i][j + e];
        store(part + i * kThreadsM * kAccumulatorStride + column(j), some);
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
