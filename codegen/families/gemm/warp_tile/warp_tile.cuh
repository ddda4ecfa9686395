// SPDX-License-Identifier: Apache-2.0
// A GEMM tile on tensor cores: operands stream through a multistage pipeline in shared memory. The
// float32 accumulators end up there, and the epilogue's threads read them in any order.
#pragma once

#include "mma.cuh"
#include "reduce.cuh"
#include "tile_accumulators.cuh"

/// Copies kRows x kColumns elements by kThreads threads; elements outside [rows) x [columns) become
/// zero.
template <int kRows, int kColumns, int kStride, int kVector, int kThreads, class T>
SINTER_DEVICE void copy_tile(T* shared, const T* from, i64 stride, i32 rows, i32 columns) {
  constexpr int kAcross = kColumns / kVector, kCount = kRows * kAcross;
#pragma unroll
  for (int first = 0; first < kCount; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (kCount % kThreads != 0 && i >= kCount) break;
    const int row = i / kAcross, column = i % kAcross * kVector;
    const bool valid = row < rows && column < columns;
    T* to = shared + row * kStride + column;
    const T* source = valid ? from + row * stride + column : from;
    if constexpr (kVector == 1)
      *to = valid ? *after_grid_wait(source) : T{0};
    else
      cp_async<kVector* static_cast<int>(sizeof(T))>(to, source, valid);
  }
}

/// Transposed copy: element (row, column) is `from`'s (column, row), read kVector of its
/// columns at a time. Synchronous stores of single elements, which other threads see after a
/// barrier.
template <int kRows, int kColumns, int kStride, int kVector, int kThreads, class T>
SINTER_DEVICE void copy_transposed(T* shared, const T* from, i64 stride, i32 rows, i32 columns) {
  constexpr int kAcross = kRows / kVector, kCount = kColumns * kAcross;
#pragma unroll 4
  for (int first = 0; first < kCount; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (kCount % kThreads != 0 && i >= kCount) break;
    const int column = i / kAcross, row = i % kAcross * kVector;
    const bool valid = row < rows && column < columns;
    const T* source = valid ? from + column * stride + row : from;
    Vec<T, kVector> items = splat<kVector>(T{0});
    if (valid) items = load<kVector>(after_grid_wait(source));
#pragma unroll
    for (int j = 0; j < kVector; ++j) shared[(row + j) * kStride + column] = items.v[j];
  }
}

/// A left operand with row stride `stride_a`; `a` is the tile's first row, at k = 0. Other kinds
/// are in separate headers (implicit_gemm.cuh).
struct DenseRows {
  template <class T, int kRows, int kColumns, int kStride, int kVector, int kThreads>
  struct Operand {
    const T* a;
    i64 stride_a;

    /// Copies columns from k on; zeros for rows from `rows` on and columns from `end` on.
    SINTER_DEVICE void copy(T* shared, i32 rows, i32 k, i32 end) const {
      copy_tile<kRows, kColumns, kStride, kVector, kThreads>(shared, a + (k < end ? k : 0),
                                                             stride_a, rows, end - k);
    }
  };
};

/// Block scales of both operands, one for each 128 k's: for each row, [count, blocks], and for each
/// `group` columns, [groups, blocks].
template <bool kScaled>
struct BlockScales {
  static constexpr int kDepth = 128;
  const float *rows, *columns;
  i32 count, blocks, groups, group;
  i32 first_row, first_column;  // of the tile

  /// The scale of a row of the tile, and of a column's group; indices past the end use the last
  /// scale.
  SINTER_DEVICE float of_row(i32 row, i32 block) const {
    return rows[static_cast<i64>(minimum(first_row + row, count - 1)) * blocks + block];
  }
  SINTER_DEVICE float of_column(i32 column, i32 block) const {
    return columns[minimum((first_column + column) / group, groups - 1) * blocks + block];
  }
};
template <>
struct BlockScales<false> {};

/// kM x kN accumulators over k, kK at a time. kWarpsM x kWarpsN warps divide the tile, and kWarpsK
/// of each divide a step's k. kSplitK adjacent blocks of a cluster divide the whole k. Partial
/// accumulators are added in a fixed order. kRowsAreK: b[k][n] with n contiguous; otherwise
/// b[n][k], which 8-bit b always is in shared memory. Left reads a[m][k]. kVectorA, kVectorB:
/// elements of one copy (4 to 16 bytes, or one element); rows are aligned to it and a multiple of
/// it. kScaled: a warp's part of a step is within one scale block of k, and the tile within one
/// column group; their scales multiply its MMAs.
template <class A, class B, int kM, int kN, int kK, int kWarpsM, int kWarpsN, int kWarpsK,
          int kStages, int kSplitK, bool kRowsAreK, int kVectorA, int kVectorB,
          class Left = DenseRows, bool kScaled = false>
struct WarpTile {
  typedef SumOf<A> Sum;
  static constexpr int kUnit = 16 / static_cast<int>(sizeof(A));  // elements in 16 bytes
  static constexpr int kDepth = kFragmentDepth<A>;                // k's of a fragment
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN * kWarpsK;
  static constexpr int kTilesM = kM / kWarpsM / 16, kTilesN = kN / kWarpsN / 8;
  static constexpr int kWarpK = kK / kWarpsK;
  static_assert(kM % (16 * kWarpsM) == 0 && kN % (8 * kWarpsN) == 0 && kK % (kDepth * kWarpsK) == 0,
                "warps multiply tiles of 16 x 8 x 32 bytes");
  static_assert(sizeof(A) == sizeof(B), "fragments of both operands are as deep");
  static_assert(kStages >= 2, "one stage is read while another is filled");

  // Row pitch is an odd number of 16-byte units: ldmatrix has no bank conflicts.
  static constexpr int odd_units(int elements) { return (elements / kUnit | 1) * kUnit; }
  static constexpr int kStrideA = odd_units(kK);
  static constexpr bool kBByRows = kRowsAreK && sizeof(B) > 1;  // in shared memory
  static constexpr int kRowsB = kBByRows ? kK : kN, kColumnsB = kBByRows ? kN : kK;
  static constexpr int kStrideB = odd_units(kColumnsB);
  static constexpr int kStage = kM * kStrideA + kRowsB * kStrideB;  // elements
  static constexpr int kAccumulatorStride = kN + 8;
  static constexpr int kStageBytes = kStages * kStage * static_cast<int>(sizeof(A));
  static constexpr int kSumBytes = kWarpsK * kM * kAccumulatorStride * 4;
  static constexpr int kSharedBytes = kStageBytes > kSumBytes ? kStageBytes : kSumBytes;

  /// Operands of a block: `b` is the tile's first column, at k = 0.
  struct Operands : Left::template Operand<A, kM, kK, kStrideA, kVectorA, kThreads> {
    const B* b;
    i64 stride_b;
    i32 rows, columns;  // remaining from the tile on; may exceed the tile
    i32 begin, end;     // of k
    BlockScales<kScaled> scales;
  };

  SINTER_DEVICE static A* stage_of(unsigned char* shared, int stage) {
    return reinterpret_cast<A*>(shared) + stage * kStage;
  }
  SINTER_DEVICE static void copy_a(const Operands& x, A* stage, i32 k) {
    x.copy(stage, x.rows, k, x.end);
  }
  SINTER_DEVICE static void copy_b(const Operands& x, A* stage, i32 k) {
    B* shared = reinterpret_cast<B*>(stage + kM * kStrideA);
    const i32 at = k < x.end ? k : 0;
    if constexpr (kRowsAreK && !kBByRows)
      copy_transposed<kN, kK, kStrideB, kVectorB, kThreads>(shared, x.b + at * x.stride_b,
                                                            x.stride_b, x.columns, x.end - k);
    else if constexpr (kRowsAreK)
      copy_tile<kK, kN, kStrideB, kVectorB, kThreads>(shared, x.b + at * x.stride_b, x.stride_b,
                                                      x.end - k, x.columns);
    else
      copy_tile<kN, kK, kStrideB, kVectorB, kThreads>(shared, x.b + at, x.stride_b, x.columns,
                                                      x.end - k);
  }

  typedef Sum Accumulators[kTilesM][kTilesN][4];

  /// This warp's MMAs of one stage.
  SINTER_DEVICE static void multiply_stage(Accumulators& accumulators, const A* stage) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_n = warp % kWarpsN, warp_m = warp / kWarpsN % kWarpsM;
    const int warp_k = warp / (kWarpsN * kWarpsM);
    const A* a = stage + (warp_m * kTilesM * 16 + lane % 16) * kStrideA + lane / 16 * kUnit;
    const B* b = reinterpret_cast<const B*>(stage + kM * kStrideA);
#pragma unroll
    for (int step = 0; step < kWarpK; step += kDepth) {
      const int k = warp_k * kWarpK + step;
      u32 left[kTilesM][4], right[kTilesN][2];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) load_matrix_x4(left[i], a + i * 16 * kStrideA + k);
#pragma unroll
      for (int j = 0; j + 1 < kTilesN; j += 2) {
        const int n = (warp_n * kTilesN + j) * 8;
        u32 both[4];
        if constexpr (kBByRows)
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
        const int n = (warp_n * kTilesN + kTilesN - 1) * 8;
        if constexpr (kBByRows)
          load_matrix_x2_transposed(right[kTilesN - 1], b + (k + lane % 16) * kStrideB + n);
        else
          load_matrix_x2(right[kTilesN - 1],
                         b + (n + lane % 8) * kStrideB + k + lane / 8 % 2 * kUnit);
      }
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

  SINTER_DEVICE static int count_steps(const Operands& x) {
    return x.end > x.begin ? (x.end - x.begin + kK - 1) / kK : 0;
  }

  /// Starts the first copies. `kProgrammatic`: the kernel may start before the preceding one ends.
  /// Operand b does not depend on that, so that its copies start before the wait.
  template <bool kProgrammatic>
  SINTER_DEVICE static void begin(unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x);
    if (kProgrammatic) {
#pragma unroll
      for (int s = 0; s < kStages - 1; ++s)
        if (s < steps) copy_b(x, stage_of(shared, s), x.begin + s * kK);
      grid_dependency_wait();
    }
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (s < steps) {
        if (!kProgrammatic) copy_b(x, stage_of(shared, s), x.begin + s * kK);
        copy_a(x, stage_of(shared, s), x.begin + s * kK);
      }
      cp_async_commit();
    }
  }

  /// After begin(): fills `shared` with the block's accumulators, which sum() reads.
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x);
    Accumulators accumulators = {};
    for (int s = 0; s < steps; ++s) {
      cp_async_wait<kStages - 2>();
      __syncthreads();  // stage s is visible to all threads; all have left the stage that is filled
                        // next
      const int next = s + kStages - 1;
      if (next < steps) {
        A* stage = stage_of(shared, next % kStages);
        copy_b(x, stage, x.begin + next * kK);
        copy_a(x, stage, x.begin + next * kK);
      }
      cp_async_commit();
      if constexpr (kScaled)
        multiply_scaled(accumulators, stage_of(shared, s % kStages), x, x.begin + s * kK);
      else
        multiply_stage(accumulators, stage_of(shared, s % kStages));
    }
    cp_async_wait<0>();
    __syncthreads();  // the accumulators overwrite the stages
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
