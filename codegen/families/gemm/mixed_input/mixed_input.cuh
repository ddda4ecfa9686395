// A tile of a matrix product by warpgroups whose weights are packed (wgmma: sm_90a): weights are
// the left operand, made into floats in registers, rows of x the right one in shared memory. A warp
// has the copy engine fill the stages; the accumulators end up in shared memory as those of
// warp_tile.cuh do.
#pragma once

#include "small_m.cuh"
#include "tensor_map.cuh"

#ifdef SINTER_WARPGROUPS

/// kM rows by kN columns, whose x is copied kK of k at a time; columns are those of kParts equal
/// parts of all side by side, as in SmallMTile. kGroups warpgroups share the columns, kSplitK
/// neighbouring blocks of a cluster share k; kResident blocks fit a multiprocessor. A warp copies
/// its own weights, kAhead times 64 of k. Scales of whole columns are applied to the accumulators;
/// those of groups, and zero points, to the weights, which are then rounded to T: S is T for them.
template <class T, class Weights, class Scaling, int kM, int kN, int kK, int kGroups, int kStages,
          int kAhead, int kSplitK, int kResident = 1, int kParts = 1>
struct MixedInputTile {
  typedef typename Scaling::Stored S;
  static constexpr int kWorkers = 128 * kGroups, kThreads = kWorkers + 128;
  // Registers of a thread at first, of who copies x and of who multiplies.
  static constexpr int kShare = 65536 / (kThreads * kResident) / 8 * 8;
  static constexpr int kFew = 24, kRest = (kShare * (kGroups + 1) - kFew) / kGroups / 8 * 8;
  static constexpr int kMany = kRest < 240 ? kRest : 240;
  static constexpr int kTiles = kN / (64 * kGroups);  // of 64 columns, of a warpgroup
  static constexpr int kRows = kM % 128 == 0 ? 128 : kM % 96 == 0 ? 96 : 64;  // of one product
  static constexpr int kProducts = kM / kRows;
  static constexpr int kPart = 64, kPartsOfStage = kK / kPart;  // of k whose weights are held
  static constexpr int kPartN = kN / kParts;
  static_assert(kN % (64 * kGroups) == 0 && kN % (16 * kParts) == 0,
                "warps multiply blocks of 16 columns");
  static_assert(kM % kRows == 0 && kStages >= 2 && kAhead >= 2, "as wgmma has it");
  static_assert(kK == kPart || kK == 2 * kPart, "stages are blocks of 64 columns of x");

  static constexpr int kGroup = Scaling::kGroup;
  static constexpr bool kGrouped = kGroup > 0;
  static constexpr bool kByColumn = Scaling::kScaled && !kGrouped;
  static constexpr int kFold = kGrouped && kGroup < kPart ? kGroup : kPart;
  static constexpr int kFolds = kPart / kFold;
  static_assert(!kGrouped || (kGroup % kPart == 0 || kPart % kGroup == 0), "groups fit parts");
  static_assert(!kGrouped || (kGroup % 16 == 0 && sizeof(S) == 2), "groups are whole fragments");

  static constexpr int kStageBytes = kM * kK * 2;
  // A warp's weights of a part, and their scales and zero points.
  static constexpr int kBlockBytes = kPart / Weights::kUnitDepth * 512;
  static constexpr int kScaleBytes = kGrouped ? kFolds * 32 : 0;
  static constexpr int kZeroBytes = kGrouped && Scaling::kZeros ? kFolds * 32 : 0;
  static constexpr int kSlotBytes = kTiles * (kBlockBytes + kScaleBytes + kZeroBytes);
  static constexpr int kRingBytes = kWorkers / 32 * kAhead * kSlotBytes;
  // Tiles begin at multiples of 1024 bytes.
  static constexpr int kAccumulatorStride = kN + 4, kSumBytes = kM * kAccumulatorStride * 4;
  static constexpr int kFilledBytes = kStages * kStageBytes + kRingBytes;
  static constexpr int kBodyBytes =
      ((kFilledBytes > kSumBytes ? kFilledBytes : kSumBytes) + 15) / 16 * 16;
  static constexpr int kSharedBytes = 1024 + kBodyBytes + 2 * kStages * 16;

  /// What a block multiplies: weights and scales from its first column on, at k = 0.
  struct Operands {
    const TensorMap* a;
    i32 row;  // the tile's first
    const void* b;
    i64 stride_b;  // bytes of 16 columns
    const S* scales;
    const T* zeros;
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
    return x.end > x.begin ? (x.end - x.begin + 2 * kPart - 1) / (2 * kPart) * (2 * kPart / kK) : 0;
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
                                  static_cast<i64>(k / Weights::kUnitDepth) * 512 + lane * 16;
#pragma unroll
      for (int unit = 0; unit < kBlockBytes; unit += 512)
        cp_async<16>(to + i * kBlockBytes + unit + lane * 16, from + unit);
      if constexpr (kGrouped) {
        if (lane < kFolds * 2) {
          const i64 at = block_at(x, column, x.stride_scales, x.part_scales) +
                         static_cast<i64>(k / kGroup) * 16 + lane * 8;
          unsigned char* const scales = to + kTiles * kBlockBytes + lane * 16;
          cp_async<16>(scales + i * kScaleBytes, x.scales + at);
          if constexpr (Scaling::kZeros)
            cp_async<16>(scales + kTiles * kScaleBytes + i * kZeroBytes, x.zeros + at);
        }
      }
    }
  }
  SINTER_DEVICE static void copy_rows(const Operands& x, unsigned char* shared, int stage, i32 k) {
    full_of(shared)[stage].arrive_and_expect_tx(kStageBytes);
#pragma unroll
    for (int column = 0; column < kK; column += 64) {
      const i32 at[2] = {k + column, x.row};
      tma_load(stage_of(shared, stage) + kM * column * 2, *x.a, at, full_of(shared)[stage]);
    }
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
        if (part < steps * kPartsOfStage) copy_weights(x, shared, part, x.begin + part * kPart);
        cp_async_commit();
      }
    }
    if (kProgrammatic) grid_dependency_wait();
    if (is_producer()) {
#pragma unroll 1
      for (int s = 0; s < kStages && s < steps; ++s) copy_rows(x, shared, s, x.begin + s * kK);
    }
    __syncthreads();  // all see the barriers
  }

  SINTER_DEVICE static void fill_stages(unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x);
    int stage = 0;
    u32 phase = 0;
#pragma unroll 1
    for (int s = kStages; s < steps; ++s) {
      free_of(shared)[stage].wait(phase);
      copy_rows(x, shared, stage, x.begin + s * kK);
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
  }

  typedef float Accumulators[kTiles][kProducts][kRows / 8][4];
  typedef u32 Fragments[kTiles][kPart / 16][4];

  /// Two neighbouring columns' (g and g + 8) values of a group, each twice.
  SINTER_DEVICE static void pairs_of(u32 (&pairs)[2], const unsigned char* values) {
    const u16* const own = reinterpret_cast<const u16*>(values) + threadIdx.x % 32 / 4;
    pairs[0] = own[0] * 0x10001u;
    pairs[1] = own[8] * 0x10001u;
  }

  /// The warp's weights in a slot, as floats.
  SINTER_DEVICE static void load_weights(Fragments& a, const unsigned char* slot) {
    constexpr int kDepth = Weights::kUnitDepth, kEach = kDepth / 16;  // fragments of a unit
    const int lane = threadIdx.x % 32;
    const unsigned char* const scales = slot + kTiles * kBlockBytes;
    const unsigned char* const zeros = scales + kTiles * kScaleBytes;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int unit = 0; unit < kPart / kDepth; ++unit) {
        const uint4 bits = load_shared_x4(slot + i * kBlockBytes + unit * 512 + lane * 16);
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          u32(&own)[4] = a[i][unit * kEach + j];
          Weights::template widen_unit<T>(own, bits, j);
          if constexpr (kGrouped) {
            const int fold = (unit * kDepth + j * 16) / kFold;
            u32 pairs[2];
            if constexpr (Scaling::kZeros) {
              pairs_of(pairs, zeros + i * kZeroBytes + fold * 32);
#pragma unroll
              for (int r = 0; r < 4; ++r) own[r] = subtract_pairs<T>(own[r], pairs[r % 2]);
            }
            pairs_of(pairs, scales + i * kScaleBytes + fold * 32);
#pragma unroll
            for (int r = 0; r < 4; ++r)
              own[r] = multiply_add_pairs<T>(own[r], pairs[r % 2], 0x80008000u);
          }
        }
      }
    }
  }

  /// Starts the products of part `part` of a stage.
  SINTER_DEVICE static void start_part(Accumulators& accumulators, const Fragments& a,
                                       const unsigned char* stage, int part) {
    const T* const rows = reinterpret_cast<const T*>(stage) + part * kM * 64;
    warpgroup_arrive();
#pragma unroll
    for (int j = 0; j < kPart / 16; ++j)
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int p = 0; p < kProducts; ++p)
          wgmma<kRows, false>(accumulators[i][p], a[i][j], rows + p * kRows * 64, j * 16, true);
    warpgroup_commit();
  }

  SINTER_DEVICE static void settle_weights(Fragments& a) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) settle(a[i]);
  }

  SINTER_DEVICE static void fence_accumulators(Accumulators& accumulators) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int p = 0; p < kProducts; ++p) settle(accumulators[i][p]);
  }

  SINTER_DEVICE static void multiply_stages(Accumulators& accumulators, unsigned char* shared,
                                            const Operands& x) {
    const int parts = count_steps(x) * kPartsOfStage;
    Fragments a[2];
    int stage = 0, before = 0;  // of the part at hand; whose products were started last
    int slot = 0;               // of the weights that are loaded next
    u32 phase = 0;
    const auto load_next = [&](int s, Fragments& own) {
      cp_async_wait<kAhead - 2>();
      __syncwarp();
      const int ahead = s + kAhead - 1;
      if (ahead < parts)
        copy_weights(x, shared, slot == 0 ? kAhead - 1 : slot - 1, x.begin + ahead * kPart);
      cp_async_commit();
      load_weights(own, slot_of(shared, slot));
      if (++slot == kAhead) slot = 0;
    };
    if (parts > 0) {
      load_next(0, a[0]);
      full_of(shared)[0].wait(0);
    }
    // The next part's weights are made into floats while this one's are multiplied.
    const auto turn = [&](int s, Fragments& own, Fragments& other) {
      const int part = s % kPartsOfStage;
      start_part(accumulators, own, stage_of(shared, stage), part);
      if (s > 0) {
        warpgroup_wait<1>();
        settle_weights(other);
        if (part == 0 && threadIdx.x % 32 == 0) free_of(shared)[before].arrive();
      }
      before = stage;
      if (s + 1 == parts) return;
      load_next(s + 1, other);
      if (part + 1 == kPartsOfStage) {
        if (++stage == kStages) stage = 0, phase ^= 1;
        full_of(shared)[stage].wait(phase);
      }
    };
    fence_accumulators(
        accumulators);  // zeros before the first product: else ptxas waits for each product
#pragma unroll 1
    for (int s = 0; s < parts; s += 2) {
      turn(s, a[0], a[1]);
      turn(s + 1, a[1], a[0]);
    }
    warpgroup_wait<0>();
    fence_accumulators(accumulators);
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
          scales[i][0] = widen(own[0]);
          scales[i][1] = widen(own[8]);
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
