// A tile of a matrix product by warpgroups (wgmma: sm_90a): one thread has the copy engine fill the
// stages, warpgroups multiply out of shared memory, the sums end up there in float32 as in
// product.cuh, and all threads of the block have the epilogue.
#pragma once

#include "product.cuh"
#include "tensor_map.cuh"

#ifdef SINTER_WARPGROUPS

/// kM x kN sums over k, 64 at a time. kGroups warpgroups share the rows, kSplits neighbouring
/// blocks of a cluster share k. kRowsAreK: b[k][n], else b[n][k]. Both operands are tensors of
/// kRank dimensions: two, and the batch's. All partial sums are added in one fixed order.
template <class T, int kM, int kN, int kGroups, int kStages, int kSplits, bool kRowsAreK, int kRank>
struct GroupTile {
  static constexpr int kK = 64;  // elements of a tile's row of 128 bytes
  static constexpr int kWorkers = 128 * kGroups, kThreads = kWorkers + 32;
  static constexpr int kRowTiles = kM / kGroups / 64;
  /// Columns of one product: the hardware's larger forms are no faster than two of these.
  static constexpr int kColumns = kN % 128 == 0                ? 128
                                  : kN % 96 == 0 && !kRowsAreK ? 96
                                  : kN % 64 == 0               ? 64
                                                               : 32;
  static constexpr int kProducts = kN / kColumns;
  static_assert(kM % (64 * kGroups) == 0 && kN % kColumns == 0 && (!kRowsAreK || kN % 64 == 0),
                "warpgroups multiply 64 rows, boxes of b are 64 columns wide");

  static constexpr int kTileA = kM * kK, kTileB = kN * kK, kStage = kTileA + kTileB;  // elements
  static constexpr int kSumStride = kN + 8;
  static constexpr int kStageBytes = kStages * kStage * 2, kSumBytes = kM * kSumStride * 4;
  static constexpr int kBodyBytes = kStageBytes > kSumBytes ? kStageBytes : kSumBytes;
  // Tiles begin at multiples of 1024 bytes.
  static constexpr int kSharedBytes = 1024 + kBodyBytes + 2 * kStages * 16;

  /// What a block multiplies: element `row` of a's rows and `column` of b's columns are the tile's
  /// first, `batch_a` and `batch_b` the places in further dimensions.
  struct Operands {
    const TensorMap *a, *b;
    i32 row, column;
    i32 batch_a[kRank - 1], batch_b[kRank - 1];  // of which the last is unused
    i32 begin, end;                              // of k
  };

  SINTER_DEVICE static unsigned char* body_of(unsigned char* shared) {
    const auto address = reinterpret_cast<u64>(shared);
    return shared + (1024 - address % 1024) % 1024;
  }
  SINTER_DEVICE static T* stages_of(unsigned char* shared) {
    return reinterpret_cast<T*>(body_of(shared));
  }
  /// kStages that turn over when a stage has arrived, as many when all have left it.
  SINTER_DEVICE static Turnstile* full_of(unsigned char* shared) {
    return reinterpret_cast<Turnstile*>(body_of(shared) + kBodyBytes);
  }
  SINTER_DEVICE static Turnstile* free_of(unsigned char* shared) {
    return full_of(shared) + kStages;
  }
  SINTER_DEVICE static int count_steps(const Operands& x) {
    return x.end > x.begin ? (x.end - x.begin + kK - 1) / kK : 0;
  }
  SINTER_DEVICE static bool leads() { return threadIdx.x == kWorkers; }

  SINTER_DEVICE static void copy(T* to, const TensorMap& map, i32 first, i32 second,
                                 const i32 (&batch)[kRank - 1], Turnstile& arrivals) {
    i32 at[kRank];
    at[0] = first;
    at[1] = second;
#pragma unroll
    for (int d = 2; d < kRank; ++d) at[d] = batch[d - 2];
    copy_box(to, map, at, arrivals);
  }
  SINTER_DEVICE static void copy_a(const Operands& x, unsigned char* shared, int stage, i32 k) {
    copy(stages_of(shared) + stage * kStage, *x.a, k, x.row, x.batch_a, full_of(shared)[stage]);
  }
  SINTER_DEVICE static void copy_b(const Operands& x, unsigned char* shared, int stage, i32 k) {
    T* const to = stages_of(shared) + stage * kStage + kTileA;
    if constexpr (kRowsAreK) {
#pragma unroll
      for (int column = 0; column < kN; column += 64)
        copy(to + column * kK, *x.b, x.column + column, k, x.batch_b, full_of(shared)[stage]);
    } else {
      copy(to, *x.b, k, x.column, x.batch_b, full_of(shared)[stage]);
    }
  }

  /// Starts the first copies. `kEarly`: the kernel was launched before the one in front has ended,
  /// on which b does not depend: it is fetched before that is waited for.
  template <bool kEarly>
  SINTER_DEVICE static void begin(unsigned char* shared, const Operands& x) {
    if (leads()) {
      for (int stage = 0; stage < kStages; ++stage) {
        full_of(shared)[stage].start(1);
        free_of(shared)[stage].start(kWorkers / 32);
      }
      show_turnstiles();
    }
    const int steps = count_steps(x);
    if (leads()) {
#pragma unroll 1
      for (int s = 0; s < kStages && s < steps; ++s) {
        full_of(shared)[s].arrive_and_expect(kStage * 2);
        copy_b(x, shared, s, x.begin + s * kK);
      }
      prefetch_map(*x.a);
    }
    if (kEarly) wait_for_previous_kernel();
    if (leads()) {
#pragma unroll 1
      for (int s = 0; s < kStages && s < steps; ++s) copy_a(x, shared, s, x.begin + s * kK);
    }
    __syncthreads();  // all see the turnstiles
  }

  typedef float Sums[kRowTiles][kProducts][kColumns / 8][4];

  SINTER_DEVICE static void fill_stages(unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x);
    int stage = 0;
    u32 phase = 0;
#pragma unroll 1
    for (int s = kStages; s < steps; ++s) {
      free_of(shared)[stage].wait(phase);
      full_of(shared)[stage].arrive_and_expect(kStage * 2);
      copy_b(x, shared, stage, x.begin + s * kK);
      copy_a(x, shared, stage, x.begin + s * kK);
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
  }

  SINTER_DEVICE static void multiply_stages(Sums& sums, unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x), group = threadIdx.x / 128;
    int stage = 0, before = 0;
    u32 phase = 0;
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      full_of(shared)[stage].wait(phase);
      const T* const a = stages_of(shared) + stage * kStage + group * kRowTiles * 64 * 64;
      const T* const b = stages_of(shared) + stage * kStage + kTileA;
      order_products();
#pragma unroll
      for (int k = 0; k < kK; k += 16)
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
          for (int j = 0; j < kProducts; ++j)
            start_product<kRowsAreK ? 64 : kColumns, kRowsAreK>(
                sums[i][j], a + i * 64 * 64, b + j * kColumns * 64, k, s > 0 || k > 0);
      commit_products();
      if (s > 0) {
        wait_for_products<1>();
        if (threadIdx.x % 32 == 0) free_of(shared)[before].arrive();
      }
      before = stage;
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
    wait_for_products<0>();
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kProducts; ++j) settle(sums[i][j]);
  }

  SINTER_DEVICE static void store_sums(const Sums& sums, unsigned char* shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float* const first = reinterpret_cast<float*>(body_of(shared)) +
                         (warp / 4 * kRowTiles * 64 + warp % 4 * 16 + lane / 4) * kSumStride +
                         lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kProducts; ++j)
#pragma unroll
        for (int column = 0; column < kColumns; column += 8)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float(&d)[4] = sums[i][j][column / 8];
            const Vec<float, 2> pair = {{d[half * 2], d[half * 2 + 1]}};
            store(first + (i * 64 + half * 8) * kSumStride + j * kColumns + column, pair);
          }
  }

  /// Behind begin(): fills `shared` with the block's sums, to be read by sum().
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    if (threadIdx.x >= kWorkers) {
      if (leads()) fill_stages(shared, x);
      __syncwarp();
      __syncthreads();
    } else {
      Sums sums = {};
      multiply_stages(sums, shared, x);
      __syncthreads();  // the sums take the stages' place
      store_sums(sums, shared);
    }
    if (kSplits > 1)
      cluster_barrier();
    else
      __syncthreads();
  }

  /// See TileSums.
  template <int N>
  SINTER_DEVICE static void sum(float (&x)[N], unsigned char* shared, int row, int column,
                                u32 rank) {
    TileSums<kM, kSumStride, 1, kSplits>::add_up(x, reinterpret_cast<const float*>(body_of(shared)),
                                                 row, column, rank);
  }
  SINTER_DEVICE static float sum(unsigned char* shared, int row, int column, u32 rank) {
    float x[1];
    sum(x, shared, row, column, rank);
    return x[0];
  }
};

#endif  // SINTER_WARPGROUPS
