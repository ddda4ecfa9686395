// SPDX-License-Identifier: Apache-2.0
// A GEMM tile by warpgroups (wgmma, sm_90a): one producer thread issues TMA copies into the stages,
// warpgroups run MMAs from shared memory. The float32 accumulators end up there as in
// warp_tile.cuh, and all threads of the block run the epilogue.
#pragma once

#include "tensor_map.cuh"
#include "warp_tile.cuh"

#ifdef SINTER_WARPGROUPS

/// Convolution windows that are the rows of a, over images with kDims pixel dimensions,
/// outermost first. k is (tap.., channel); a copy has 128 bytes of channels of one tap. Taps are
/// padded to multiples of 128 bytes: a is zero in padding channels, so that b's values there do
/// not matter.
template <int kDims>
struct MappedWindows {
  i32 channels, padded;  // per tap
  i32 out[kDims], kernel[kDims], step[kDims], dilation[kDims], pad[kDims];
  i32 at[kDims], image;  // where the tile's first window begins

  SINTER_DEVICE void find(i32 row) {
    u32 left = static_cast<u32>(row);
#pragma unroll
    for (int d = kDims - 1; d >= 0; --d) {
      const u32 count = static_cast<u32>(out[d]);
      at[d] = static_cast<i32>(left % count) * step[d] - pad[d];
      left /= count;
    }
    image = static_cast<i32>(left);
  }
  /// The index in a row of b of padded index `k`.
  SINTER_DEVICE i32 weight(i32 k) const {
    return k -
           static_cast<i32>(static_cast<u32>(k) / static_cast<u32>(padded)) * (padded - channels);
  }
  template <class T>
  SINTER_DEVICE void copy(T* to, const TensorMap& map, i32 k, MBarrier& arrivals) const {
    u32 tap = static_cast<u32>(k) / static_cast<u32>(padded);
    i32 coordinates[kDims + 2], behind[kDims];
    coordinates[0] = k - static_cast<i32>(tap) * padded;
    coordinates[kDims + 1] = image;
#pragma unroll
    for (int d = kDims - 1; d >= 0; --d) {
      const u32 count = static_cast<u32>(kernel[d]);
      coordinates[kDims - d] = at[d];
      behind[kDims - 1 - d] = static_cast<i32>(d > 0 ? tap % count : tap) * dilation[d];
      tap /= count;
    }
    tma_load_im2col(to, map, coordinates, behind, arrivals);
  }
};
template <>
struct MappedWindows<0> {
  SINTER_DEVICE i32 weight(i32 k) const { return k; }
};

/// Callbacks of a mainloop: it no longer waits for any stage; with promotion, the number of steps
/// started.
struct NoProgress {
  SINTER_DEVICE void all_started() const {}
  SINTER_DEVICE void started(int) const {}
};

/// Pipeline of kStages stages for kGroups warpgroups, which divide the rows of kM x kN
/// accumulators; k advances by 128 bytes. kRowsAreK: b[k][n], otherwise b[n][k]; 8-bit b is
/// always b[n][k]. Both operands are tensors of kRank dimensions: two, and the batch's. The
/// stages' memory, at least kLeastBytes, may be reused when all are done. Columns belong to
/// kParts equal, adjacent parts (gated units, say). kWindows: pixel dimensions if rows of a
/// are convolution windows. kPromoted: number of stages after which accumulators are added
/// to float32 registers, as fp8 tensor cores accumulate with fewer bits than float32; 0:
/// never. kMulticast: adjacent blocks of a cluster with the same columns share copies of b:
/// each issues a part, multicast to all. kScaled: promotion multiplies by the scales of rows
/// and columns. kSplitK: the cluster has that many such groups of blocks, each with a part
/// of k.
template <class A, class B, int kM, int kN, int kGroups, int kStages, bool kRowsAreK, int kRank,
          int kLeastBytes = 0, int kParts = 1, int kWindows = 0, int kPromoted = 0,
          int kMulticast = 1, bool kScaled = false, int kSplitK = 1>
struct TmaMainloop {
  typedef SumOf<A> Sum;
  static constexpr int kRowBytes = 128;
  static constexpr int kK = kRowBytes / static_cast<int>(sizeof(A));  // elements of a row of the
                                                                      // tile
  static constexpr int kRowTiles = kM / kGroups / 64;
  /// Columns of one wgmma. The largest form reads the rows once for all columns.
  static constexpr int kColumns = kPromoted == 0 && kN == 256                 ? 256
                                  : kPromoted == 0 && kN == 224 && !kRowsAreK ? 224
                                  : kN == 192                                 ? 192
                                  : kN == 160 && !kRowsAreK                   ? 160
                                  : kN % 128 == 0                             ? 128
                                  : kN % 112 == 0 && !kRowsAreK               ? 112
                                  : kN % 96 == 0 && !kRowsAreK                ? 96
                                  : kN % 64 == 0                              ? 64
                                                                              : 32;
  static constexpr int kProducts = kN / kColumns;
  static constexpr int kOfWarpgroup = kRowTiles * kProducts;  // MMAs of a stage
  static constexpr int kPart = kN / kParts;                   // columns
  static_assert(kM % (64 * kGroups) == 0 && kN % kColumns == 0 &&
                    kPart % (kRowsAreK ? 64 : 16) == 0 && kPart * kParts == kN,
                "warpgroups multiply 64 rows, boxes of b are 64 columns wide");
  static_assert(kOfWarpgroup == 1 || kPromoted * 2 <= kStages,
                "stages that are read again leave others to the copies");
  static_assert(!kScaled || (kPromoted == 1 && sizeof(A) == 1), "blocks of k have a stage each");
  static_assert(kRowsAreK || kPart / kMulticast % 8 == 0, "blocks copy whole rows of the swizzle");
  static_assert(sizeof(A) == sizeof(B) && (!kRowsAreK || sizeof(A) == 2),
                "k is contiguous in operands of 8 bits");

  static constexpr int kTileA = kM * kK, kTileB = kN * kK, kStage = kTileA + kTileB;  // elements
  static constexpr int kStageBytes = kStages * (kM + kN) * kRowBytes;
  static constexpr int kBodyBytes = kStageBytes > kLeastBytes ? kStageBytes : kLeastBytes;
  // Tiles are aligned to 1024 bytes.
  static constexpr int kSharedBytes = 1024 + kBodyBytes + 2 * kStages * 16;

  /// Operands of a block: the tile starts at `row` of a's rows and `column` of b's columns.
  /// `batch_a` and `batch_b` are the indices in further dimensions.
  struct Operands {
    const TensorMap *a, *b;
    i32 row, column;
    i32 part_b;                                  // columns between parts
    i32 batch_a[kRank - 1], batch_b[kRank - 1];  // the last element is unused
    i32 begin, end;                              // of k
    MappedWindows<kWindows> windows;
    BlockScales<kScaled> scales;
  };
  typedef Sum Accumulators[kRowTiles][kProducts][kColumns / 8][4];

  SINTER_DEVICE static unsigned char* body_of(unsigned char* shared) {
    const auto address = reinterpret_cast<u64>(shared);
    return shared + (1024 - address % 1024) % 1024;
  }
  SINTER_DEVICE static A* a_of(unsigned char* shared, int stage) {
    return reinterpret_cast<A*>(body_of(shared)) + stage * kStage;
  }
  SINTER_DEVICE static B* b_of(unsigned char* shared, int stage) {
    return reinterpret_cast<B*>(body_of(shared)) + stage * kStage + kTileA;
  }
  /// kStages mbarriers that complete when a stage is full, then kStages for when it is free.
  SINTER_DEVICE static MBarrier* full_of(unsigned char* shared) {
    return reinterpret_cast<MBarrier*>(body_of(shared) + kBodyBytes);
  }
  SINTER_DEVICE static MBarrier* free_of(unsigned char* shared) {
    return full_of(shared) + kStages;
  }
  SINTER_DEVICE static int count_steps(const Operands& x) {
    return x.end > x.begin ? (x.end - x.begin + kK - 1) / kK : 0;
  }
  template <int kBlocks = 1>
  SINTER_DEVICE static void copy(void* to, const TensorMap& map, i32 first, i32 second,
                                 const i32 (&batch)[kRank - 1], MBarrier& arrivals) {
    i32 at[kRank];
    at[0] = first;
    at[1] = second;
#pragma unroll
    for (int d = 2; d < kRank; ++d) at[d] = batch[d - 2];
    if constexpr (kBlocks > 1)
      tma_load_multicast<kBlocks>(to, map, at, arrivals, first_rank());
    else
      tma_load(to, map, at, arrivals);
  }
  /// This block's index among those that share b.
  SINTER_DEVICE static u32 rank() { return kMulticast > 1 ? blockIdx.x % kMulticast : 0; }
  /// The part of k of the block.
  SINTER_DEVICE static u32 part_of_k() {
    return kSplitK > 1 ? blockIdx.x / kMulticast % kSplitK : 0;
  }
  /// First rank in the cluster of the blocks that share b.
  SINTER_DEVICE static u32 first_rank() { return part_of_k() * kMulticast; }
  SINTER_DEVICE static void copy_a(const Operands& x, unsigned char* shared, int stage, i32 k) {
    A* const to = a_of(shared, stage);
    if constexpr (kWindows > 0)
      x.windows.copy(to, *x.a, k, full_of(shared)[stage]);
    else
      copy(to, *x.a, k, x.row, x.batch_a, full_of(shared)[stage]);
  }
  SINTER_DEVICE static i32 column_of_b(const Operands& x, int column) {
    return kParts == 1 ? x.column + column : x.column + column / kPart * x.part_b + column % kPart;
  }
  SINTER_DEVICE static void copy_b(const Operands& x, unsigned char* shared, int stage, i32 k) {
    B* const to = b_of(shared, stage);
    if constexpr (kRowsAreK) {
#pragma unroll
      for (int column = 0; column < kN; column += 64)
        if (column / 64 % kMulticast == static_cast<int>(rank()))
          copy<kMulticast>(to + column * kK, *x.b, column_of_b(x, column), k, x.batch_b,
                           full_of(shared)[stage]);
    } else {
#pragma unroll
      for (int first = 0; first < kN; first += kPart) {
        const i32 column = first + static_cast<i32>(rank()) * (kPart / kMulticast);
        copy<kMulticast>(to + column * kK, *x.b, x.windows.weight(k), column_of_b(x, column),
                         x.batch_b, full_of(shared)[stage]);
      }
    }
  }
  SINTER_DEVICE static void copy_stage(const Operands& x, unsigned char* shared, int stage, i32 k) {
    full_of(shared)[stage].arrive_and_expect_tx((kM + kN) * kRowBytes);
    copy_b(x, shared, stage, k);
    copy_a(x, shared, stage, k);
  }
  /// By one thread, before a __syncthreads().
  SINTER_DEVICE static void init_barriers(unsigned char* shared) {
    for (int stage = 0; stage < kStages; ++stage) {
      full_of(shared)[stage].start(1);
      free_of(shared)[stage].start(4 * kGroups * kMulticast);
    }
    fence_barrier_init();
  }
  /// Starts the first copies into empty stages; returns their number. `kProgrammatic`: the kernel
  /// may start before the preceding one ends. Operand b does not depend on that, so that its copies
  /// start before the wait.
  template <bool kProgrammatic>
  SINTER_DEVICE static int fill_first(unsigned char* shared, const Operands& x) {
    const int count = minimum(count_steps(x), kStages);
#pragma unroll 1
    for (int s = 0; s < count; ++s) {
      full_of(shared)[s].arrive_and_expect_tx((kM + kN) * kRowBytes);
      copy_b(x, shared, s, x.begin + s * kK);
    }
    prefetch_tma_descriptor(*x.a);
    if (kProgrammatic) grid_dependency_wait();
#pragma unroll 1
    for (int s = 0; s < count; ++s) copy_a(x, shared, s, x.begin + s * kK);
    return count;
  }
  /// Copies the steps from `done` on, each when its stage is free.
  SINTER_DEVICE static void fill_others(unsigned char* shared, const Operands& x, int done,
                                        PipelineState<kStages>& at) {
    const int steps = count_steps(x);
#pragma unroll 1
    for (int s = done; s < steps; ++s, at = at.next()) {
      free_of(shared)[at.stage].wait(at.phase);
      copy_stage(x, shared, at.stage, x.begin + s * kK);
    }
  }

  SINTER_DEVICE static void release(unsigned char* shared, int stage) {
    const u32 lane = threadIdx.x % 32;
    if (kMulticast == 1) {
      if (lane == 0) free_of(shared)[stage].arrive();
    } else if (lane < kMulticast) {
      free_of(shared)[stage].arrive_at(first_rank() + lane);
    }
  }
  /// Starts the MMAs of `steps` stages from `at` on, overwriting the accumulators. Returns the last
  /// stage, whose MMAs are then in flight.
  SINTER_DEVICE static int start_products(Accumulators& accumulators, unsigned char* shared,
                                          int steps, int group, PipelineState<kStages> at) {
    int before = at.stage;
#pragma unroll 1
    for (int s = 0; s < steps; ++s, at = at.next()) {
      full_of(shared)[at.stage].wait(at.phase);
      warpgroup_arrive();
#pragma unroll
      for (int k = 0; k < kK; k += kFragmentDepth<A>)
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
          for (int j = 0; j < kProducts; ++j)
            WarpgroupProduct<A, B>::template start<kRowsAreK ? 64 : kColumns, kRowsAreK>(
                accumulators[i][j], a_of(shared, at.stage) + (group * kRowTiles + i) * 64 * kK,
                b_of(shared, at.stage) + j * kColumns * kK, k, s > 0 || k > 0);
      warpgroup_commit();
      if (s > 0) {
        warpgroup_wait<1>();
        release(shared, before);
      }
      before = at.stage;
    }
    return before;
  }
  /// Waits for these MMAs.
  SINTER_DEVICE static void finish_products(Accumulators& accumulators) {
    warpgroup_wait<0>();
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kProducts; ++j) settle(accumulators[i][j]);
  }

  typedef Sum Parts[kColumns / 8][4];
  SINTER_DEVICE static void promote(Parts& accumulators, Parts& parts, const float (&scales)[2]) {
    settle(parts);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        accumulators[n][e] = kScaled ? fmaf(parts[n][e], scales[e / 2], accumulators[n][e])
                                     : accumulators[n][e] + parts[n][e];
  }
  /// Loads the scales of the thread's two rows, for the columns of one MMA.
  SINTER_DEVICE static void load_scales(float (&scales)[2], const Operands& x, int step, int i,
                                        int j, int group) {
    if constexpr (kScaled) {
      const i32 block = x.begin / kK + step;
      const i32 row =
          (group * kRowTiles + i) * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
      const float column = x.scales.of_column(j * kColumns, block);
      scales[0] = x.scales.of_row(row, block) * column;
      scales[1] = x.scales.of_row(row + 8, block) * column;
    }
  }
  /// The MMAs of `steps` stages from `at` on, promoted to float32 every kPromoted stages; returns
  /// the last stage. Another warpgroup runs MMAs meanwhile. With several MMA chains in flight the
  /// compiler would serialize all of them. MMAs of a stage's other rows and columns, which need the
  /// same registers, therefore follow the promotion of the first.
  template <class Progress>
  SINTER_DEVICE static int promote_products(Accumulators& accumulators, unsigned char* shared,
                                            const Operands& x, int steps, int group,
                                            PipelineState<kStages> at, Progress progress) {
    Parts parts;
    int before = at.stage;
    progress.started(0);
#pragma unroll 1
    for (int done = 0; done < steps;) {
      const int count = minimum(kPromoted, steps - done);
      const PipelineState<kStages> first = at;
#pragma unroll
      for (int p = 0; p < kOfWarpgroup; ++p) {
        const int i = p / kProducts, j = p % kProducts;
        const bool is_last = p + 1 == kOfWarpgroup;
        float scales[2] = {1, 1};
        load_scales(scales, x, done, i, j, group);
        at = first;
#pragma unroll 1
        for (int s = 0; s < count; ++s, at = at.next()) {
          if (p == 0) full_of(shared)[at.stage].wait(at.phase);
          warpgroup_arrive();
#pragma unroll
          for (int k = 0; k < kK; k += kFragmentDepth<A>)
            WarpgroupProduct<A, B>::template start<kColumns, kRowsAreK>(
                parts, a_of(shared, at.stage) + (group * kRowTiles + i) * 64 * kK,
                b_of(shared, at.stage) + j * kColumns * kK, k, s > 0 || k > 0);
          warpgroup_commit();
          if (!is_last) continue;
          if (s > 0) {
            warpgroup_wait<1>();
            release(shared, before);
          }
          before = at.stage;
          progress.started(done + s + 1);
        }
        if (is_last && done + count == steps) progress.all_started();
        warpgroup_wait<0>();
        if (is_last && done + count < steps) release(shared, before);
        promote(accumulators[i][j], parts, scales);
      }
      done += count;
    }
    if (steps == 0) progress.all_started();
    return before;
  }

  /// Sets the warpgroup's accumulators to the sum of `steps` stages from `at` on. Returns the last
  /// stage, which is not released yet. `group`: index among the groups that share the tile.
  /// `progress`: see NoProgress.
  template <class Progress>
  SINTER_DEVICE static int multiply_stages(Accumulators& accumulators, unsigned char* shared,
                                           const Operands& x, int steps, int group,
                                           PipelineState<kStages> at, Progress progress) {
    if constexpr (kPromoted > 0) {
      return promote_products(accumulators, shared, x, steps, group, at, progress);
    } else {
      const int last = start_products(accumulators, shared, steps, group, at);
      progress.all_started();
      finish_products(accumulators);
      return last;
    }
  }
};

/// kM x kN accumulators of a block, or of kSplitK adjacent blocks of a cluster that split k; see
/// TmaMainloop. Partial accumulators are added in a fixed order.
template <class A, class B, int kM, int kN, int kGroups, int kStages, int kSplitK, bool kRowsAreK,
          int kRank, int kParts = 1, int kWindows = 0, int kPromoted = 0, int kMulticast = 1,
          bool kScaled = false>
struct TmaTile : TmaMainloop<A, B, kM, kN, kGroups, kStages, kRowsAreK, kRank, kM*(kN + 8) * 4,
                             kParts, kWindows, kPromoted, kMulticast, kScaled> {
  static_assert(kMulticast == 1, "blocks of one tile share no copies");
  typedef TmaMainloop<A, B, kM, kN, kGroups, kStages, kRowsAreK, kRank, kM*(kN + 8) * 4, kParts,
                      kWindows, kPromoted, kMulticast, kScaled>
      Stages;
  typedef typename Stages::Operands Operands;
  typedef typename Stages::Accumulators Accumulators;
  typedef typename Stages::Sum Sum;
  static constexpr int kWorkers = 128 * kGroups, kThreads = kWorkers + 32;
  static constexpr int kAccumulatorStride = kN + 8;

  SINTER_DEVICE static bool is_producer() { return threadIdx.x == kWorkers; }

  /// Starts the first copies; see TmaMainloop::fill_first().
  template <bool kProgrammatic>
  SINTER_DEVICE static void begin(unsigned char* shared, const Operands& x) {
    if (is_producer()) {
      Stages::init_barriers(shared);
      Stages::template fill_first<kProgrammatic>(shared, x);
    } else if (kProgrammatic) {
      grid_dependency_wait();
    }
    __syncthreads();  // all threads see the mbarriers
  }

  SINTER_DEVICE static void clear(Accumulators& accumulators) {
#pragma unroll
    for (int i = 0; i < Stages::kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < Stages::kProducts; ++j)
#pragma unroll
        for (int n = 0; n < Stages::kColumns / 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) accumulators[i][j][n][e] = 0;
  }

  SINTER_DEVICE static void store_accumulators(const Accumulators& accumulators,
                                               unsigned char* shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Sum* const first =
        reinterpret_cast<Sum*>(Stages::body_of(shared)) +
        (warp / 4 * Stages::kRowTiles * 64 + warp % 4 * 16 + lane / 4) * kAccumulatorStride +
        lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < Stages::kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < Stages::kProducts; ++j)
#pragma unroll
        for (int column = 0; column < Stages::kColumns; column += 8)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const Sum(&d)[4] = accumulators[i][j][column / 8];
            const Vec<Sum, 2> pair = {{d[half * 2], d[half * 2 + 1]}};
            store(first + (i * 64 + half * 8) * kAccumulatorStride + j * Stages::kColumns + column,
                  pair);
          }
  }

  /// After begin(): fills `shared` with the block's accumulators, which sum() reads.
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    if (threadIdx.x >= kWorkers) {
      if (is_producer()) {
        PipelineState<kStages> at;
        Stages::fill_others(shared, x, kStages, at);
      }
      __syncwarp();
      __syncthreads();
    } else {
      // Clearing before a loop that may not execute would serialize its MMAs (ptxas remark
      // C7515).
      Accumulators accumulators;
      const int steps = Stages::count_steps(x);
      if (kPromoted > 0 || steps == 0) clear(accumulators);
      if (kPromoted > 0 || steps > 0)
        Stages::multiply_stages(accumulators, shared, x, steps, threadIdx.x / 128, {},
                                NoProgress{});
      __syncthreads();  // the accumulators overwrite the stages
      store_accumulators(accumulators, shared);
    }
    if (kSplitK > 1)
      cluster_barrier();
    else
      __syncthreads();
  }

  typedef TileAccumulators<kM, kAccumulatorStride, 1, kSplitK, Sum> Totals;
  SINTER_DEVICE static const Sum* accumulators_of(unsigned char* shared) {
    return reinterpret_cast<const Sum*>(Stages::body_of(shared));
  }
};

#endif  // SINTER_WARPGROUPS
