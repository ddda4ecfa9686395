// A tile of a matrix product on tensor cores: operands stream through shared memory in stages, the
// accumulators end up there in float32, where the threads of the epilogue read them in any order.
#pragma once

#include "mma.cuh"
#include "reduce.cuh"
#include "tile_accumulators.cuh"

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
      cp_async<kVector* static_cast<int>(sizeof(T))>(to, source, valid);
  }
}

/// The same of a matrix that lies the other way: element (row, column) is `from`'s (column, row),
/// kVector of whose columns are read at once. Copies of single elements: what is there when this
/// returns is seen by others after a barrier.
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

/// Scales of both operands that change every 128 of k: of each row, [count, blocks], and of each
/// `group` columns, [groups, blocks].
template <bool kScaled>
struct BlockScales {
  static constexpr int kDepth = 128;
  const float *rows, *columns;
  i32 count, blocks, groups, group;
  i32 first_row, first_column;  // of the tile

  /// Of one of the tile's rows, and of the group that one of its columns is in; those outside have
  /// some of the others'.
  SINTER_DEVICE float of_row(i32 row, i32 block) const {
    return rows[static_cast<i64>(minimum(first_row + row, count - 1)) * blocks + block];
  }
  SINTER_DEVICE float of_column(i32 column, i32 block) const {
    return columns[minimum((first_column + column) / group, groups - 1) * blocks + block];
  }
};
template <>
struct BlockScales<false> {};

/// kM x kN accumulators over k, kK at a time. kWarpsM x kWarpsN warps share the tile, kWarpsK of
/// each the steps' k; kSplitK neighbouring blocks of a cluster share the whole k. All partial
/// accumulators are added in one fixed order. kRowsAreK: b[k][n] with n contiguous; else b[n][k]
/// with k contiguous, as b of 8 bits is in shared memory in any case. a[m][k] is read through Left.
/// kVectorA, kVectorB: elements of one copy (4 to 16 bytes, or one); rows begin at multiples of it
/// and have a multiple of it. kScaled: a warp's share of a step lies in one block of k, and the
/// tile in one group of columns, whose scales multiply its products.
template <class A, class B, int kM, int kN, int kK, int kWarpsM, int kWarpsN, int kWarpsK,
          int kStages, int kSplitK, bool kRowsAreK, int kVectorA, int kVectorB,
          class Left = DenseRows, bool kScaled = false>
struct WarpTile {
  typedef SumOf<A> Sum;
  static constexpr int kUnit = 16 / static_cast<int>(sizeof(A));  // elements of 16 bytes
  static constexpr int kDepth = kFragmentDepth<A>;                // of k, of a fragment
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN * kWarpsK;
  static constexpr int kTilesM = kM / kWarpsM / 16, kTilesN = kN / kWarpsN / 8;
  static constexpr int kWarpK = kK / kWarpsK;
  static_assert(kM % (16 * kWarpsM) == 0 && kN % (8 * kWarpsN) == 0 && kK % (kDepth * kWarpsK) == 0,
                "warps multiply tiles of 16 x 8 x 32 bytes");
  static_assert(sizeof(A) == sizeof(B), "fragments of both operands are as deep");
  static_assert(kStages >= 2, "one stage is read while another is filled");

  // Rows of an odd number of 16-byte units: matrices are then read without bank conflicts.
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

  /// What a block multiplies: `b` points at the tile's first column, at k = 0.
  struct Operands : Left::template Operand<A, kM, kK, kStrideA, kVectorA, kThreads> {
    const B* b;
    i64 stride_b;
    i32 rows, columns;  // that are left from the tile on; may exceed it
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

  /// One stage's share of this warp.
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

  /// The same of products that scales multiply; `k`: where the stage begins.
  SINTER_DEVICE static void multiply_scaled(Accumulators& accumulators, const A* stage,
                                            const Operands& x, i32 k) {
    static_assert(!kScaled || BlockScales<kScaled>::kDepth % kWarpK == 0, "one block of k");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i32 block = (k + warp / (kWarpsN * kWarpsM) * kWarpK) / BlockScales<kScaled>::kDepth;
    if (block >= x.scales.blocks) return;  // behind the last
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

  /// Starts the first copies. `kProgrammatic`: the kernel was launched before the one in front has
  /// ended, on which b does not depend: it is fetched before that is waited for.
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

  /// Behind begin(): fills `shared` with the block's accumulators, to be read by sum().
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x);
    Accumulators accumulators = {};
    for (int s = 0; s < steps; ++s) {
      cp_async_wait<kStages - 2>();
      __syncthreads();  // stage s is there for all, and all have left the one that is filled next
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
    __syncthreads();  // the accumulators take the stages' place
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
