// A tile of a matrix product on tensor cores: operands stream through shared memory in stages, the
// accumulators end up there in float32, where the threads of the epilogue read them in any order.
#pragma once

#include "cluster.cuh"
#include "mma.cuh"
#include "reduce.cuh"
#include "vector.cuh"

/// Copies kRows x kColumns elements by kThreads threads; what lies outside [rows) x [columns)
/// becomes zero.
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
      cp_async<kVector * 2>(to, source, valid);
  }
}

/// A left operand whose rows lie `stride_a` apart; `a` is the tile's first, at k = 0. Others are in
/// headers of their own (implicit_gemm.cuh).
struct DenseRows {
  template <class T, int kRows, int kColumns, int kStride, int kVector, int kThreads>
  struct Operand {
    const T* a;
    i64 stride_a;

    /// Columns k .. of the rows, zero behind `rows` and from column `end` on.
    SINTER_DEVICE void copy(T* shared, i32 rows, i32 k, i32 end) const {
      copy_tile<kRows, kColumns, kStride, kVector, kThreads>(shared, a + (k < end ? k : 0),
                                                             stride_a, rows, end - k);
    }
  };
};

/// Accumulators of a tile of kM rows in shared memory, rows kStride apart: kParts of them in each
/// of kSplitK neighbouring blocks of a cluster, added in order.
template <int kM, int kStride, int kParts, int kSplitK>
struct TileAccumulators {
  /// Those of one row from a column on that is a multiple of N. `rank`: this block's in its
  /// cluster; the splits of a tile are neighbours.
  template <int N>
  SINTER_DEVICE static void add_up(float (&x)[N], const float* accumulators, int row, int column,
                                   u32 rank) {
    const float* mine = accumulators + row * kStride + column;
    bool is_first = true;
#pragma unroll
    for (int split = 0; split < kSplitK; ++split) {
      const float* parts =
          kSplitK > 1 ? of_block(mine, rank / kSplitK * kSplitK + static_cast<u32>(split)) : mine;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Vec<float, N> some = load<N>(parts + part * kM * kStride);
#pragma unroll
        for (int j = 0; j < N; ++j) x[j] = is_first ? some.v[j] : x[j] + some.v[j];
        is_first = false;
      }
    }
  }
};

/// A tile with what an epilogue reads of it: Tile::Totals, a TileAccumulators, of what lies at
/// Tile::accumulators_of(shared).
template <class Tile>
struct WithAccumulators : Tile {
  template <int N>
  SINTER_DEVICE static void sum(float (&x)[N], unsigned char* shared, int row, int column,
                                u32 rank) {
    Tile::Totals::add_up(x, Tile::accumulators_of(shared), row, column, rank);
  }
  SINTER_DEVICE static float sum(unsigned char* shared, int row, int column, u32 rank) {
    float x[1];
    sum(x, shared, row, column, rank);
    return x[0];
  }
};

/// kM x kN accumulators over k, kK at a time. kWarpsM x kWarpsN warps share the tile, kWarpsK of
/// each the steps' k; kSplitK neighbouring blocks of a cluster share the whole k. All partial
/// accumulators are added in one fixed order. kRowsAreK: b[k][n] with n contiguous; else b[n][k]
/// with k contiguous. a[m][k] is read through Left. kVectorA, kVectorB: elements of one copy (8, 4,
/// 2 or 1); rows begin at multiples of it and have a multiple of it.
template <class T, int kM, int kN, int kK, int kWarpsM, int kWarpsN, int kWarpsK, int kStages,
          int kSplitK, bool kRowsAreK, int kVectorA, int kVectorB, class Left = DenseRows>
struct WarpTile {
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN * kWarpsK;
  static constexpr int kTilesM = kM / kWarpsM / 16, kTilesN = kN / kWarpsN / 8;
  static constexpr int kWarpK = kK / kWarpsK;
  static_assert(kM % (16 * kWarpsM) == 0 && kN % (8 * kWarpsN) == 0 && kK % (16 * kWarpsK) == 0,
                "warps multiply tiles of 16 x 8 x 16");
  static_assert(kStages >= 2, "one stage is read while another is filled");

  // Rows of an odd number of 16-byte units: matrices are then read without bank conflicts.
  static constexpr int odd_units(int elements) { return (elements / 8 | 1) * 8; }
  static constexpr int kStrideA = odd_units(kK);
  static constexpr int kRowsB = kRowsAreK ? kK : kN, kColumnsB = kRowsAreK ? kN : kK;
  static constexpr int kStrideB = odd_units(kColumnsB);
  static constexpr int kStage = kM * kStrideA + kRowsB * kStrideB;  // elements
  static constexpr int kAccumulatorStride = kN + 8;
  static constexpr int kStageBytes = kStages * kStage * 2;
  static constexpr int kSumBytes = kWarpsK * kM * kAccumulatorStride * 4;
  static constexpr int kSharedBytes = kStageBytes > kSumBytes ? kStageBytes : kSumBytes;

  /// What a block multiplies: `b` points at the tile's first column, at k = 0.
  struct Operands : Left::template Operand<T, kM, kK, kStrideA, kVectorA, kThreads> {
    const T* b;
    i64 stride_b;
    i32 rows, columns;  // that are left from the tile on; may exceed it
    i32 begin, end;     // of k
  };

  SINTER_DEVICE static void copy_a(const Operands& x, T* stage, i32 k) {
    x.copy(stage, x.rows, k, x.end);
  }
  SINTER_DEVICE static void copy_b(const Operands& x, T* stage, i32 k) {
    T* shared = stage + kM * kStrideA;
    const i32 at = k < x.end ? k : 0;
    if constexpr (kRowsAreK)
      copy_tile<kK, kN, kStrideB, kVectorB, kThreads>(shared, x.b + at * x.stride_b, x.stride_b,
                                                      x.end - k, x.columns);
    else
      copy_tile<kN, kK, kStrideB, kVectorB, kThreads>(shared, x.b + at, x.stride_b, x.columns,
                                                      x.end - k);
  }

  typedef float Accumulators[kTilesM][kTilesN][4];

  /// One stage's share of this warp.
  SINTER_DEVICE static void multiply_stage(Accumulators& accumulators, const T* stage) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_n = warp % kWarpsN, warp_m = warp / kWarpsN % kWarpsM;
    const int warp_k = warp / (kWarpsN * kWarpsM);
    const T* a = stage + (warp_m * kTilesM * 16 + lane % 16) * kStrideA + lane / 16 * 8;
    const T* b = stage + kM * kStrideA;
#pragma unroll
    for (int step = 0; step < kWarpK; step += 16) {
      const int k = warp_k * kWarpK + step;
      u32 left[kTilesM][4], right[kTilesN][2];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) load_matrix_x4(left[i], a + i * 16 * kStrideA + k);
#pragma unroll
      for (int j = 0; j + 1 < kTilesN; j += 2) {
        const int n = (warp_n * kTilesN + j) * 8;
        u32 both[4];
        if constexpr (kRowsAreK)
          load_matrix_x4_transposed(both, b + (k + lane % 16) * kStrideB + n + lane / 16 * 8);
        else
          load_matrix_x4(both,
                         b + (n + lane % 8 + lane / 16 * 8) * kStrideB + k + lane / 8 % 2 * 8);
        right[j][0] = both[0];
        right[j][1] = both[1];
        right[j + 1][0] = both[2];
        right[j + 1][1] = both[3];
      }
      if constexpr (kTilesN % 2 != 0) {
        const int n = (warp_n * kTilesN + kTilesN - 1) * 8;
        if constexpr (kRowsAreK)
          load_matrix_x2_transposed(right[kTilesN - 1], b + (k + lane % 16) * kStrideB + n);
        else
          load_matrix_x2(right[kTilesN - 1], b + (n + lane % 8) * kStrideB + k + lane / 8 % 2 * 8);
      }
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int j = 0; j < kTilesN; ++j)
          mma_16x8x16<T>(accumulators[i][j], left[i], right[j][0], right[j][1]);
    }
  }

  SINTER_DEVICE static int count_steps(const Operands& x) {
    return x.end > x.begin ? (x.end - x.begin + kK - 1) / kK : 0;
  }

  /// Starts the first copies. `kProgrammatic`: the kernel was launched before the one in front has
  /// ended, on which b does not depend: it is fetched before that is waited for.
  template <bool kProgrammatic>
  SINTER_DEVICE static void begin(unsigned char* shared, const Operands& x) {
    T* stages = reinterpret_cast<T*>(shared);
    const int steps = count_steps(x);
    if (kProgrammatic) {
#pragma unroll
      for (int s = 0; s < kStages - 1; ++s)
        if (s < steps) copy_b(x, stages + s * kStage, x.begin + s * kK);
      grid_dependency_wait();
    }
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (s < steps) {
        if (!kProgrammatic) copy_b(x, stages + s * kStage, x.begin + s * kK);
        copy_a(x, stages + s * kStage, x.begin + s * kK);
      }
      cp_async_commit();
    }
  }

  /// Behind begin(): fills `shared` with the block's accumulators, to be read by sum().
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    T* stages = reinterpret_cast<T*>(shared);
    const int steps = count_steps(x);
    Accumulators accumulators = {};
    for (int s = 0; s < steps; ++s) {
      cp_async_wait<kStages - 2>();
      __syncthreads();  // stage s is there for all, and all have left the one that is filled next
      const int next = s + kStages - 1;
      if (next < steps) {
        T* stage = stages + next % kStages * kStage;
        copy_b(x, stage, x.begin + next * kK);
        copy_a(x, stage, x.begin + next * kK);
      }
      cp_async_commit();
      multiply_stage(accumulators, stages + s % kStages * kStage);
    }
    cp_async_wait<0>();
    __syncthreads();  // the accumulators take the stages' place
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_n = warp % kWarpsN, warp_m = warp / kWarpsN % kWarpsM;
    float* part =
        reinterpret_cast<float*>(shared) +
        (warp / (kWarpsN * kWarpsM) * kM + warp_m * kTilesM * 16 + lane / 4) * kAccumulatorStride +
        warp_n * kTilesN * 8 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kTilesN; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Vec<float, 2> pair = {
              {accumulators[i][j][half * 2], accumulators[i][j][half * 2 + 1]}};
          store(part + (i * 16 + half * 8) * kAccumulatorStride + j * 8, pair);
        }
    if (kSplitK > 1)
      cluster_barrier();
    else
      __syncthreads();
  }

  typedef TileAccumulators<kM, kAccumulatorStride, kWarpsK, kSplitK> Totals;
  SINTER_DEVICE static const float* accumulators_of(unsigned char* shared) {
    return reinterpret_cast<const float*>(shared);
  }
};

/// Combines a row's values over the kLanes neighbouring lanes that share it in a block and over the
/// kAcross blocks of the cluster that hold its columns; `rank` as above, with kSplitK blocks for
/// each. Every lane gets the result. `scratch`: one value for each of the block's groups of lanes,
/// not used again.
template <class Combine, int kLanes, int kAcross, int kSplitK, class T>
SINTER_DEVICE T reduce_tile_row(T x, T* scratch, u32 rank) {
  x = reduce_lanes<Combine, kLanes>(x);
  if (kAcross == 1) return x;
  const int group = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  if (lane == 0) scratch[group] = x;
  cluster_barrier();
  // Each lane fetches from other blocks, so that their latencies overlap.
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
