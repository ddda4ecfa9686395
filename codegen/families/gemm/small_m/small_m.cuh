// SPDX-License-Identifier: Apache-2.0
// A tile of a small-M GEMM, whose time is that of reading the weights. Weights are the MMA's A
// operand, so that eight rows of x fill its columns. Each warp streams its own weights through a
// multistage pipeline in shared memory. The float32 accumulators end up in shared memory
// (tile_accumulators.cuh).
#pragma once

#include "packed_weights.cuh"
#include "tile_accumulators.cuh"

/// kM rows by kWarpsN * kColumns columns, which belong to kParts equal, adjacent parts (gated
/// units, say). kWarpsK warps, and kSplitK adjacent blocks of a cluster, split k; each warp
/// processes kDepth of it at a time. Partial accumulators are added in a fixed order. kVectorA,
/// kVectorB: elements of one copy of x, and of unpacked weights. kPrologueRows: that many whole
/// rows of x are in shared memory after all else (made_rows), with row stride kRowStride; 0: x is
/// copied step by step. X: storage type of x: T, or an 8-bit float that is widened to T in
/// registers and for which weights must be packed (PackedWeights). kGathered: x has rows that
/// Operands::gathered names. kWeighed: accumulators are multiplied by Operands::factor.
template <class T, class Weights, class Scaling, int kM, int kColumns, int kDepth, int kWarpsN,
          int kWarpsK, int kStages, int kSplitK, int kVectorA = 8, int kVectorB = 8, int kParts = 1,
          int kPrologueRows = 0, int kRowStride = 0, class X = T, bool kGathered = false,
          bool kWeighed = false>
struct SmallMTile {
  static constexpr int kBytesX = static_cast<int>(sizeof(X));
  static constexpr bool kWidens = kBytesX == 1;
  static_assert(!kWidens || (Weights::kPacked && kPrologueRows == 0), "packed for such x");
  static constexpr bool kPacked = Weights::kPacked;
  typedef typename Scaling::Stored S;
  static constexpr int kN = kColumns * kWarpsN, kThreads = 32 * kWarpsN * kWarpsK;
  static constexpr int kUnits = kColumns / 16, kTilesM = (kM + 7) / 8;
  typedef ColumnsOfParts<kN, kParts> Columns;
  static constexpr int kStepDepth = kDepth * kWarpsK;  // of a block
  static constexpr int kGroup = Scaling::kGroup;
  static constexpr bool kGrouped = kGroup > 0;
  static constexpr int kFold = fold_of<Scaling>(kDepth);  // in a step of a warp
  static constexpr int kFolds = kDepth / kFold;
  // Independent accumulator chains of a group, as each MMA waits for the previous one of its
  // chain.
  static constexpr int kChains = kGrouped && kTilesM == 1 && kFold % 32 == 0 ? 2 : 1;
  static_assert(kColumns % 16 == 0 && kDepth % Weights::kUnitDepth == 0 && kDepth % 32 == 0,
                "warps multiply units");
  static_assert(kM <= 8 ? (kM & (kM - 1)) == 0 : kM % 16 == 0, "rows of eight, or a few");
  static_assert(kFold % 16 == 0, "groups are whole fragments");
  static_assert(kStages >= 2, "one stage is read while another is filled");

  static constexpr bool is_power_of_two(int x) { return (x & (x - 1)) == 0; }
  static constexpr int odd_units(int elements) { return (elements / 8 | 1) * 8; }
  // Bytes of a warp's weights and scales.
  static constexpr bool kRowsAreK = Weights::kRowsAreK;
  static constexpr int kStrideB = odd_units(kRowsAreK ? kColumns : kDepth);
  static constexpr int kRowsB = kRowsAreK ? kDepth : kColumns;
  static constexpr int kWeightBytes =
      kPacked ? kUnits * (kDepth / Weights::kUnitDepth) * 512 : kRowsB * kStrideB * 2;
  static constexpr int kScaleBytes =
      kGrouped ? kUnits * kFolds * 16 * static_cast<int>(sizeof(S)) : 0;
  static constexpr int kZeroBytes = kGrouped && Scaling::kZeros ? kUnits * kFolds * 16 * 2 : 0;
  static constexpr int kWarpBytes = kWeightBytes + kScaleBytes + kZeroBytes;
  // Elements of x that the warps of one part of k share.
  static constexpr bool kRowsAreMade = kPrologueRows > 0;
  static constexpr int kRowsThere = kRowsAreMade ? kPrologueRows : kM;  // others duplicate the last
  static_assert(!kRowsAreMade || kM <= 8, "made rows are a few");
  static constexpr int kStrideA =
      kRowsAreMade ? kRowStride : odd_units(kDepth * kBytesX / 2) * 2 / kBytesX;
  static constexpr int kRowsBytes = kRowsAreMade ? 0 : kM * kStrideA * kBytesX;
  static constexpr int kStage = kWarpsK * (kWarpsN * kWarpBytes + kRowsBytes);
  static constexpr int kAccumulatorStride = kN + 4;
  static constexpr int kSumBytes = kWarpsK * kM * kAccumulatorStride * 4;
  // Scales of whole columns follow the memory shared by stages and accumulators.
  static constexpr bool kByColumn = Scaling::kScaled && (!kGrouped || Scaling::kFactors);
  typedef typename OfColumns<S, Scaling::kFactors>::Type OfColumn;
  static constexpr int kColumnScaleBytes = kByColumn ? kN * static_cast<int>(sizeof(OfColumn)) : 0;
  static constexpr int kRingBytes = kStages * kStage > kSumBytes ? kStages* kStage : kSumBytes;
  static constexpr int kPrologueAt = kRingBytes + kColumnScaleBytes;
  static constexpr int kSharedBytes = kPrologueAt + kPrologueRows * kRowStride * 2;

  /// Operands of a block: weights and scales from its first column on, at k = 0.
  struct Operands {
    const X* a;  // first row
    i64 stride_a;
    const void* b;
    i64 stride_b;  // packed: bytes between groups of 16 columns; otherwise elements of a row
    const S* scales;
    const T* zeros;
    i64 stride_scales;        // between groups of 16 columns, in elements
    i64 part_b, part_scales;  // between parts, in units of the strides
    i32 rows, columns;        // remaining from the tile on, of a part; may exceed the tile
    i32 begin, end;           // of k
    const float* factors;
    i64 part_factors;
    const i32* gathered;  // of the tile's rows, in shared memory
    float factor;
  };

  typedef float Accumulators[kUnits][kTilesM][4];

  SINTER_DEVICE static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  SINTER_DEVICE static int part_of_k() { return warp() / kWarpsN; }
  SINTER_DEVICE static unsigned char* weights_of(unsigned char* stage) {
    return stage + warp() * kWarpBytes;
  }
  SINTER_DEVICE static X* rows_of(unsigned char* stage) {
    return reinterpret_cast<X*>(stage + kWarpsK * kWarpsN * kWarpBytes + part_of_k() * kRowsBytes);
  }

  /// Whether the unit with column `n` of the tile exists.
  SINTER_DEVICE static bool has_unit(const Operands& x, int n) {
    return Columns::within_part(n) / 16 * 16 < x.columns;
  }
  /// Whether a warp's step at `k` exists; a compile-time fact if all do.
  SINTER_DEVICE static bool has_depth(const Operands& x, i32 k) {
    return (x.end - x.begin) % kStepDepth == 0 || k < x.end;
  }

  SINTER_DEVICE static int count_steps(const Operands& x) {
    return x.end > x.begin ? (x.end - x.begin + kStepDepth - 1) / kStepDepth : 0;
  }

  /// Starts the copy of this warp's weights of a step.
  SINTER_DEVICE static void copy_weights(const Operands& x, unsigned char* shared, int step) {
    fill_weights(x, stage_of(shared, step), step);
  }

  /// The same for a given stage. With packed weights each lane copies what it will read.
  SINTER_DEVICE static void fill_weights(const Operands& x, unsigned char* stage, int step) {
    const int lane = threadIdx.x % 32, first = warp() % kWarpsN * kColumns;
    const i32 k = x.begin + (step * kWarpsK + part_of_k()) * kDepth;
    unsigned char* to = weights_of(stage);
    if constexpr (kPacked) {
      constexpr int kAcross = kDepth / Weights::kUnitDepth;
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const bool valid = has_unit(x, first + i * 16) && has_depth(x, k);
        const unsigned char* from = static_cast<const unsigned char*>(x.b);
        if (valid)
          from += Columns::unit_at(first + i * 16, x.stride_b, x.part_b) +
                  static_cast<i64>(k / Weights::kUnitDepth) * 512 + lane * 16;
#pragma unroll
        for (int j = 0; j < kAcross; ++j)
          cp_async<16>(to + (i * kAcross + j) * 512 + lane * 16, valid ? from + j * 512 : from,
                       valid);
      }
    } else if constexpr (!kRowsAreK && kVectorB == 8 && kDepth <= 256 && is_power_of_two(kDepth)) {
      // One address for each lane; its copies are at constant offsets, which leaves few
      // instructions besides the copies.
      constexpr int kAcross = kDepth / 8;
      constexpr int kAtOnce = 32 / kAcross;  // columns, which are of one part
      static_assert(kAtOnce > 0 && 16 % kAtOnce == 0, "columns of one copy are within a unit");
      const int row = lane / kAcross, column = lane % kAcross * 8;
      const bool is_deep = has_depth(x, k + column);
      const T* start = static_cast<const T*>(x.b);
      const T* from = start + (row * x.stride_b + column) + k;
      T* target = reinterpret_cast<T*>(to) + row * kStrideB + column;
#pragma unroll
      for (int i = 0; i < kColumns; i += kAtOnce) {
        const int n = Columns::within_part(first + i);
        const T* source = from + (Columns::part_of(first + i) * x.part_b + n * x.stride_b);
        // With whole units the compiler can drop part of the check.
        const bool valid = is_deep && (x.columns % 16 == 0 ? n < x.columns : n + row < x.columns);
        cp_async<16>(target + i * kStrideB, valid ? source : start, valid);
      }
    } else {
      constexpr int kColumnsB = kRowsAreK ? kColumns : kDepth;
      constexpr int kAcross = kColumnsB / kVectorB, kCount = kRowsB * kAcross;
      T* shared = reinterpret_cast<T*>(to);
#pragma unroll
      for (int at = 0; at < kCount; at += 32) {
        const int i = at + lane;
        if (kCount % 32 != 0 && i >= kCount) break;
        const int row = i / kAcross, column = i % kAcross * kVectorB;
        const int local = first + (kRowsAreK ? column : row), n = Columns::within_part(local);
        const int depth = k + (kRowsAreK ? row : column);
        const bool valid = n < x.columns && depth < x.end;
        const T* from = static_cast<const T*>(x.b);
        if (valid)
          from += Columns::part_of(local) * x.part_b +
                  (kRowsAreK ? depth * x.stride_b + n : n * x.stride_b + depth);
        T* target = shared + row * kStrideB + column;
        if constexpr (kVectorB == 1)
          *target = valid ? *after_grid_wait(from) : T{0};
        else
          cp_async<kVectorB * 2>(target, from, valid);
      }
    }
    if constexpr (kGrouped) {
      copy_scales(x.scales, x, to + kWeightBytes, k);
      if constexpr (Scaling::kZeros) copy_scales(x.zeros, x, to + kWeightBytes + kScaleBytes, k);
    }
  }

  /// Copies the scales or zero points of a step: 16 adjacent columns for each group.
  template <class V>
  SINTER_DEVICE static void copy_scales(const V* values, const Operands& x, unsigned char* to,
                                        i32 k) {
    constexpr int kPieces = 16 * static_cast<int>(sizeof(V)) / 16;  // of 16 bytes, per group
    constexpr int kEach = 16 / static_cast<int>(sizeof(V));
    constexpr int kCount = kUnits * kFolds * kPieces;
    const int lane = threadIdx.x % 32, first = warp() % kWarpsN * kColumns;
#pragma unroll
    for (int at = 0; at < kCount; at += 32) {
      const int i = at + lane;
      if (kCount % 32 != 0 && i >= kCount) break;
      const int unit = i / (kFolds * kPieces), fold = i / kPieces % kFolds, piece = i % kPieces;
      const i32 depth = k + fold * kFold;
      const bool valid = has_unit(x, first + unit * 16) && has_depth(x, k);
      const V* from = values;
      if (valid)
        from += Columns::unit_at(first + unit * 16, x.stride_scales, x.part_scales) +
                static_cast<i64>(depth / kGroup) * 16 + piece * kEach;
      cp_async<16>(to + i * 16, from, valid);
    }
  }

  /// The rows of x from the prologue, with stride kRowStride.
  SINTER_DEVICE static T* made_rows(unsigned char* shared) {
    return reinterpret_cast<T*>(shared + kPrologueAt);
  }

  /// After begin(): calls `make` to compute rows of `k` elements, and zeros their padding.
  template <class Make>
  SINTER_DEVICE static void make_prologue(unsigned char* shared, int k, const Make& make) {
    T* rows = made_rows(shared);
    const int rest = kRowStride - k;
    for (int i = threadIdx.x; i < kPrologueRows * rest; i += kThreads)
      rows[i / rest * kRowStride + k + i % rest] = T{};
    make(rows);
    __syncthreads();
  }

  /// Starts the copy of x for this part of k.
  SINTER_DEVICE static void copy_rows(const Operands& x, unsigned char* stage, int step) {
    if constexpr (!kRowsAreMade) copy_x(x, stage, step);
  }
  SINTER_DEVICE static void copy_x(const Operands& x, unsigned char* stage, int step) {
    constexpr int kAcross = kDepth / kVectorA, kCount = kM * kAcross, kSharing = 32 * kWarpsN;
    const int thread = threadIdx.x % kSharing;
    const i32 k = x.begin + (step * kWarpsK + part_of_k()) * kDepth;
    X* shared = rows_of(stage);
#pragma unroll
    for (int at = 0; at < kCount; at += kSharing) {
      const int i = at + thread;
      if (kCount % kSharing != 0 && i >= kCount) break;
      const int row = i / kAcross, column = i % kAcross * kVectorA;
      // The same row in every step: its address is advanced, not recomputed.
      const bool exists = row < x.rows, is_deep = has_depth(x, k + column);
      const bool valid = exists && is_deep;
      int at_row = exists ? row : 0;
      if constexpr (kGathered) at_row = exists ? x.gathered[row] : 0;
      const X* start = x.a + (at_row * x.stride_a + column);
      const X* from = is_deep ? start + k : x.a;
      X* to = shared + row * kStrideA + column;
      if constexpr (kVectorA * kBytesX < 4)
        *to = valid ? *after_grid_wait(from) : X{0};
      else
        cp_async<kVectorA * kBytesX>(to, from, valid);
    }
  }

  SINTER_DEVICE static unsigned char* stage_of(unsigned char* shared, int step) {
    return shared + step % kStages * kStage;
  }

  /// Starts the copy of the scales of whole columns.
  SINTER_DEVICE static void copy_column_scales(const Operands& x, unsigned char* shared) {
    constexpr int kEach = 16 / static_cast<int>(sizeof(OfColumn));
    const OfColumn* start;
    i64 part;
    if constexpr (Scaling::kFactors)
      start = x.factors, part = x.part_factors;
    else
      start = x.scales, part = x.part_scales;
#pragma unroll
    for (int at = 0; at < kN / kEach; at += kThreads) {
      const int n = (at + static_cast<int>(threadIdx.x)) * kEach;
      if (n >= kN) break;
      const bool valid = has_unit(x, n);
      const OfColumn* from = start;
      if (valid) from += Columns::part_of(n) * part + Columns::within_part(n);
      cp_async<16>(reinterpret_cast<OfColumn*>(shared + kRingBytes) + n, from, valid);
    }
  }

  /// Starts the first copies. `kProgrammatic`: the kernel may start before the preceding one ends.
  /// Weights do not depend on that, so that their copies start before the wait.
  template <bool kProgrammatic>
  SINTER_DEVICE static void begin(unsigned char* shared, const Operands& x) {
    begin<kProgrammatic>(shared, x, [] { grid_dependency_wait(); });
  }
  /// `ready`: called, if kProgrammatic, before x is copied.
  template <bool kProgrammatic, class Ready>
  SINTER_DEVICE static void begin(unsigned char* shared, const Operands& x, const Ready& ready) {
    const int steps = count_steps(x);
    if constexpr (kByColumn) copy_column_scales(x, shared);
    if (kProgrammatic) {
#pragma unroll
      for (int s = 0; s < kStages - 1; ++s)
        if (s < steps) copy_weights(x, shared, s);
      ready();
    }
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (s < steps) {
        if (!kProgrammatic) copy_weights(x, shared, s);
        copy_rows(x, stage_of(shared, s), s);
      }
      cp_async_commit();
    }
  }

  /// Zero points of the lane's two rows of a unit, each duplicated.
  SINTER_DEVICE static void zeros_of(u32 (&z)[2], const unsigned char* weights, int unit,
                                     int fold) {
    const int g = threadIdx.x % 32 / 4;
    const u16* zeros = reinterpret_cast<const u16*>(weights + kWeightBytes + kScaleBytes) +
                       (unit * kFolds + fold) * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) z[half] = zeros[g + half * 8] * 0x10001u;
  }

  /// Loads the packed unit with 16 columns' weights at `depth`.
  SINTER_DEVICE static uint4 load_unit(const unsigned char* weights, int unit, int depth) {
    constexpr int kUnitDepth = Weights::kUnitDepth;
    return load_shared_x4(weights + (unit * (kDepth / kUnitDepth) + depth / kUnitDepth) * 512 +
                          threadIdx.x % 32 * 16);
  }

  /// Loads the fragment of 16 columns by 16 k's at `depth`; `bits`: the packed unit that contains
  /// it.
  SINTER_DEVICE static void load_weights(u32 (&a)[4], const uint4& bits,
                                         const unsigned char* weights, int unit, int depth) {
    const int lane = threadIdx.x % 32;
    if constexpr (kPacked) {
      const int fragment = depth % Weights::kUnitDepth / 16;
      if constexpr (Scaling::kFactors)
        FactoredWeights<T, Weights>::widen_unit(a, bits, fragment);
      else
        Weights::template widen_unit<T>(a, bits, fragment);
    } else if constexpr (kRowsAreK) {
      load_matrix_x4_transposed(a, reinterpret_cast<const T*>(weights) +
                                       (depth + lane / 16 * 8 + lane % 8) * kStrideB + unit * 16 +
                                       lane / 8 % 2 * 8);
    } else {
      load_matrix_x4(a, reinterpret_cast<const T*>(weights) + (unit * 16 + lane % 16) * kStrideB +
                            depth + lane / 16 * 8);
    }
  }

  /// Row lane / 4 of eight, for 8-bit x: four adjacent k's of the fragment's 16, even ones first,
  /// in the order of the widened weights.
  SINTER_DEVICE static void widen_rows(u32 (&right)[2], const X* rows, int first, int k) {
    const int lane = threadIdx.x % 32;
    const int row = first + lane / 4 < kM ? first + lane / 4 : kM - 1;  // others duplicate the last
    const u32 word = *reinterpret_cast<const u32*>(rows + row * kStrideA + k + lane % 4 * 4);
    const u32 pairs = pick_bytes(word, 0, 0x3120);
    right[0] = PackedFloats::template widen_both<T>(pairs & 0xffff);
    right[1] = PackedFloats::template widen_both<T>(pairs >> 16);
  }

  /// This warp's MMAs of one step.
  SINTER_DEVICE static void multiply_stage(Accumulators& accumulators, unsigned char* stage,
                                           const X* rows) {
    const int lane = threadIdx.x % 32;
    const unsigned char* weights = weights_of(stage);
#pragma unroll
    for (int fold = 0; fold < kFolds; ++fold) {
      Accumulators part[kChains] = {};
      u32 z[kUnits][2];
      if constexpr (Scaling::kZeros) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) zeros_of(z[i], weights, i, fold);
      }
      uint4 bits[kUnits];
      u32 two[4];  // of x, for 32 k's
#pragma unroll
      for (int at = 0; at < kFold; at += 16) {
        const int k = fold * kFold + at;
        Accumulators& into = kGrouped ? part[at / 16 % kChains] : accumulators;
        u32 right[kTilesM][2];
        if constexpr (kWidens) {
#pragma unroll
          for (int j = 0; j < kTilesM; ++j) widen_rows(right[j], rows, j * 8, k);
        } else if constexpr (kTilesM == 1) {
          const T* own = rows + (lane % 8 < kRowsThere ? lane % 8 : kRowsThere - 1) * kStrideA + k;
          if constexpr (kFold % 32 == 0) {
            if (at % 32 == 0) load_matrix_x4(two, own + lane / 8 * 8);
            right[0][0] = two[at % 32 / 8];
            right[0][1] = two[at % 32 / 8 + 1];
          } else {
            load_matrix_x2(right[0], own + lane / 8 % 2 * 8);
          }
        } else {
#pragma unroll
          for (int j = 0; j < kTilesM; j += 2) {
            u32 both[4];
            load_matrix_x4(
                both, rows + (j * 8 + lane / 16 * 8 + lane % 8) * kStrideA + k + lane / 8 % 2 * 8);
            right[j][0] = both[0];
            right[j][1] = both[1];
            right[j + 1][0] = both[2];
            right[j + 1][1] = both[3];
          }
        }
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
          if constexpr (kPacked) {
            if (at == 0 || k % Weights::kUnitDepth == 0) bits[i] = load_unit(weights, i, k);
          }
          u32 left[4];
          load_weights(left, bits[i], weights, i, k);
          if constexpr (Scaling::kZeros) {
#pragma unroll
            for (int r = 0; r < 4; ++r) left[r] = subtract_pairs<T>(left[r], z[i][r % 2]);
          }
#pragma unroll
          for (int j = 0; j < kTilesM; ++j)
            mma_16x8x16<T>(into[i][j], left, right[j][0], right[j][1]);
        }
      }
      if constexpr (kGrouped) {
        const S* scales = reinterpret_cast<const S*>(weights + kWeightBytes) + fold * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
          float low, high;
          widen_scales(scales[i * kFolds * 16], scales[i * kFolds * 16 + 8], low, high);
#pragma unroll
          for (int j = 0; j < kTilesM; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              float sum = part[0][i][j][e];
              if constexpr (kChains == 2) sum += part[1][i][j][e];
              accumulators[i][j][e] += sum * (e < 2 ? low : high);
            }
        }
      }
    }
  }

  /// Waits for the copies of all warps that share the stage.
  SINTER_DEVICE static void meet() {
    if constexpr (kWarpsN == 1)
      __syncwarp();
    else
      __syncthreads();
  }

  /// After begin(): fills `shared` with the block's accumulators, which sum() reads.
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    const int steps = count_steps(x);
    Accumulators accumulators = {};
    unsigned char *stage = shared, *filled = shared + (kStages - 1) * kStage;
    for (int s = 0; s < steps; ++s) {
      cp_async_wait<kStages - 2>();
      meet();
      const int next = s + kStages - 1;
      if (next < steps) {
        fill_weights(x, filled, next);
        copy_rows(x, filled, next);
      }
      cp_async_commit();
      multiply_stage(accumulators, stage,
                     kRowsAreMade ? reinterpret_cast<const X*>(made_rows(shared)) + x.begin +
                                        (s * kWarpsK + part_of_k()) * kDepth
                                  : rows_of(stage));
      filled = stage;
      stage = stage + kStage == shared + kStages * kStage ? shared : stage + kStage;
    }
    cp_async_wait<0>();
    __syncthreads();  // the accumulators overwrite the stages
    if constexpr (kWeighed) {
#pragma unroll
      for (int i = 0; i < kUnits; ++i)
#pragma unroll
        for (int j = 0; j < kTilesM; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) accumulators[i][j][e] *= x.factor;
    }
    write_accumulators(shared, accumulators);
    if (kSplitK > 1)
      cluster_barrier();
    else
      __syncthreads();
  }

  SINTER_DEVICE static void write_accumulators(unsigned char* shared,
                                               const Accumulators& accumulators) {
    const int lane = threadIdx.x % 32, first = warp() % kWarpsN * kColumns;
    float* part = reinterpret_cast<float*>(shared) +
                  (part_of_k() * kM + lane % 4 * 2) * kAccumulatorStride + first + lane / 4;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      float scale[2] = {1, 1};
      if constexpr (kByColumn) {
        const OfColumn* scales =
            reinterpret_cast<const OfColumn*>(shared + kRingBytes) + first + i * 16;
        scale[0] = widen(scales[lane / 4]);
        scale[1] = widen(scales[lane / 4 + 8]);
        if constexpr (Scaling::kFactors) {
          scale[0] *= FactoredWeights<T, Weights>::kUnit;
          scale[1] *= FactoredWeights<T, Weights>::kUnit;
        }
      }
#pragma unroll
      for (int j = 0; j < kTilesM; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (kM >= 8 || lane % 4 * 2 + e % 2 < kM)
            part[(j * 8 + e % 2) * kAccumulatorStride + i * 16 + e / 2 * 8] =
                kByColumn ? accumulators[i][j][e] * scale[e / 2] : accumulators[i][j][e];
    }
  }

  typedef TileAccumulators<kM, kAccumulatorStride, kWarpsK, kSplitK> Totals;
  SINTER_DEVICE static const float* accumulators_of(unsigned char* shared) {
    return reinterpret_cast<const float*>(shared);
  }
};
