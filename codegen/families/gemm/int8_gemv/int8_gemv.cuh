// SPDX-License-Identifier: Apache-2.0
// A GEMV or small-M tile in integers. Elements of x become two or three 8-bit slices, relative to
// the largest element that the warp multiplies. Each slice is a column of the MMA's B operand, of
// which one row would fill an eighth. Quantized weights are the A operand, without conversion to
// floats; a group's accumulators are exact.
#pragma once

#include "eight_bit_mma.cuh"
#include "small_m.cuh"

/// (x & mask) ^ bits, like mask_and_set().
SINTER_DEVICE u32 mask_and_flip(u32 x, u32 mask, u32 bits) {
#ifdef __CUDACC__
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(x), "r"(mask), "r"(bits));
  return result;
#else
  return (x & mask) ^ bits;
#endif
}

/// Packed weights as signed bytes, multiplied by kLevels. of(): 32 k's of unit `j` of the lane.
template <class Weights>
struct WeightBytes;
template <>
struct WeightBytes<PackedBytes> {
  static constexpr int kLevels = 1;
  SINTER_DEVICE static void of(u32 (&a)[4], const uint4& unit, int) {
    a[0] = unit.x ^ 0x80808080u, a[1] = unit.y ^ 0x80808080u;
    a[2] = unit.z ^ 0x80808080u, a[3] = unit.w ^ 0x80808080u;
  }
};
template <>
struct WeightBytes<PackedNibbles> {
  static constexpr int kLevels = 16;
  SINTER_DEVICE static void of(u32 (&a)[4], const uint4& unit, int j) {
    const u32 words[2] = {j == 0 ? unit.x : unit.z, j == 0 ? unit.y : unit.w};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[i * 2] = mask_and_flip(words[i] << 4, 0xf0f0f0f0u, 0x80808080u);
      a[i * 2 + 1] = mask_and_flip(words[i], 0xf0f0f0f0u, 0x80808080u);
    }
  }
};

/// Elementwise maximum of two pairs without signs; NaN is largest.
template <class T>
SINTER_DEVICE u32 larger_pair(u32 x, u32 y);
#ifdef __CUDACC__
#define SINTER_LARGER(T, type)                                           \
  template <>                                                            \
  SINTER_DEVICE u32 larger_pair<T>(u32 x, u32 y) {                       \
    u32 result;                                                          \
    asm("max.NaN." type " %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y)); \
    return result;                                                       \
  }
SINTER_LARGER(f16, "f16x2")
SINTER_LARGER(bf16, "bf16x2")
#undef SINTER_LARGER
#else
template <class T>
SINTER_DEVICE u32 larger_pair(u32 x, u32 y) {  // their bits order like the numbers
  const u32 low = maximum(x & 0xffffu, y & 0xffffu);
  return low | maximum(x >> 16, y >> 16) << 16;
}
#endif

/// Maximum over the warp.
SINTER_DEVICE u32 largest_of_warp(u32 x) {
#ifdef __CUDACC__
  u32 result;
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(x));
  return result;
#else
  return reduce_lanes<Max, 32>(x);
#endif
}

/// Integers q = d0 + 256 d1 (+ 65536 d2) with slices in -128 .. 127.
template <int kSlices>
struct Int8Slices {
  static_assert(kSlices == 2 || kSlices == 3, "what floats hold");
  // |q| < 2^kBits, which leaves room in the highest slice for carries from lower ones.
  static constexpr u32 kBits = kSlices == 3 ? 21 : 14;
  // As a float, added to q: the slices are bytes of the sum; the offset propagates carries.
  static constexpr u32 kOffset = kSlices == 3 ? 0x4b408080u : 0x4b400080u;

  SINTER_DEVICE static float from_bits(u32 bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
  }
  SINTER_DEVICE static u32 bits_of(float x) {
    u32 bits;
    memcpy(&bits, &x, 4);
    return bits;
  }
  /// Exponent, for scale_of() and unit_of(), of the largest magnitude x; at least that of
  /// 2^-126.
  SINTER_DEVICE static u32 exponent_of(float x) {
    const u32 exponent = bits_of(x) >> 23;
    return exponent < kBits ? kBits : exponent;
  }
  /// The power of two that scales elements to the integer range.
  SINTER_DEVICE static float scale_of(u32 exponent) {
    return from_bits((kBits + 253 - exponent) << 23);
  }
  /// The value of 1 in the result: NaN if the largest element is infinite or NaN.
  SINTER_DEVICE static float unit_of(u32 exponent) {
    return from_bits(exponent == 255 ? 0x7fc00000u : (exponent + 1 - kBits) << 23);
  }
  /// x * scale, rounded to nearest even, in the form that split() takes.
  SINTER_DEVICE static u32 number(float x, float scale) {
    return bits_of(x * scale + from_bits(kOffset));
  }
  /// Packs each slice of four integers into a word.
  SINTER_DEVICE static void split(u32 (&slices)[kSlices], const u32 (&q)[4]) {
    const u32 first = pick_bytes(q[0], q[1], 0x5140), second = pick_bytes(q[2], q[3], 0x5140);
    slices[0] = pick_bytes(first, second, 0x5410) ^ 0x80808080u;
    slices[1] = pick_bytes(first, second, 0x7632);
    if constexpr (kSlices == 3) {
      slices[1] ^= 0x80808080u;
      const u32 top =
          pick_bytes(pick_bytes(q[0], q[1], 0x62), pick_bytes(q[2], q[3], 0x62), 0x5410);
      slices[2] = (top + 0x40404040u) ^ 0x80808080u;
    }
  }
};

/// A SmallMTile of quantized weights whose warps all split k. Rows of x are in memory, multiples of
/// 8 elements long, or in shared memory from the prologue. kSteps: the maximum over blocks. Groups
/// are multiples of 32.
template <class T, class Weights, class Scaling, int kM, int kColumns, int kDepth, int kWarpsK,
          int kStages, int kSplitK, int kParts, int kPrologueRows, int kRowStride, int kSlices,
          int kSteps>
struct Int8Tile
    : SmallMTile<T, Weights, Scaling, kM, kColumns, kDepth, 1, kWarpsK, kStages, kSplitK, 8, 8,
                 kParts, (kPrologueRows > 0 ? kPrologueRows : 1), kRowStride> {
  typedef SmallMTile<T, Weights, Scaling, kM, kColumns, kDepth, 1, kWarpsK, kStages, kSplitK, 8, 8,
                     kParts, (kPrologueRows > 0 ? kPrologueRows : 1), kRowStride>
      Base;
  typedef typename Base::Operands Operands;
  typedef typename Base::S S;
  typedef WeightBytes<Weights> Left;
  static constexpr int kUnits = Base::kUnits, kFold = Base::kFold, kFolds = Base::kFolds;
  static constexpr bool kGrouped = Base::kGrouped;
  static constexpr int kRoom = kSlices == 3 ? 4 : kSlices;  // MMA columns for each row
  static constexpr int kRowsOfTile = 8 / kRoom;
  static constexpr int kTiles = (kM + kRowsOfTile - 1) / kRowsOfTile;
  static constexpr int kWarpDepth = kSteps * kDepth;
  static_assert(kDepth % 64 == 0 && kFold % 32 == 0, "what is loaded and multiplied at once");
  static_assert(kPrologueRows > 0 || kRowStride == 0, "rows in memory take no room");
  static_assert(kWarpDepth <= 1 << 16, "accumulators of all of a warp's k fit 32 bits");

  // For 64 k's: 16 bytes for each of four lanes and each slice. The pitch is odd in units of 16
  // bytes, so that lanes that store words of adjacent k's have no bank conflicts.
  static constexpr int kBlockBytes = (kM * kSlices * 4 + 1) * 16;
  static constexpr int kWarpSlices = kWarpDepth / 64 * kBlockBytes;
  // If all steps fit the pipeline, one stage receives no copies: the slices use it if they fit.
  static constexpr int kAllSlices = kWarpsK * kWarpSlices;
  static constexpr bool kInRing = (kStages > kSteps) && (kAllSlices <= Base::kStage);
  static constexpr int kSlicesAt = kInRing ? (kStages - 1) * Base::kStage : Base::kSharedBytes;
  static constexpr int kSharedBytes = Base::kSharedBytes + (kInRing ? 0 : kAllSlices);

  template <class A, class B, bool kFirst>
  struct Either {
    typedef A Type;
  };
  template <class A, class B>
  struct Either<A, B, false> {
    typedef B Type;
  };
  typedef i32 Exact[kUnits][kTiles][4];
  typedef typename Either<float, i32, kGrouped>::Type Accumulators[kUnits][kTiles][4];

  SINTER_DEVICE static unsigned char* slices_of(unsigned char* shared) {
    return shared + kSlicesAt + Base::warp() * kWarpSlices;
  }
  // Lanes that share 16 elements of x, so that all have work; words of a lane in each half of
  // them.
  static constexpr int kFragments = kWarpDepth / 16;
  static constexpr int kShare = kFragments >= 32 ? 1 : kFragments >= 16 ? 2 : 4;
  static constexpr int kWords = 4 / kShare, kTasks = kFragments * kShare;
  static constexpr int kEach = (kTasks + 31) / 32;  // per lane
  static_assert(kEach <= 8, "a lane holds what it makes slices of");
  typedef Vec<u32, kWords> Held[2];

  /// Whether x has elements at `k`. Some of the blocks that split k have one step less than kSteps.
  SINTER_DEVICE static bool has_depth(const Operands& x, i32 k) {
    return kSplitK == 1 ? Base::has_depth(x, k) : k < x.end;
  }

  /// Loads the lane's part of task `task` of this warp.
  SINTER_DEVICE static void load_task(Held& held, unsigned char* shared, const T* rows,
                                      const Operands& x, int row, int task) {
    constexpr int kAcross = kDepth / 16;
    const int fragment = task / kShare;
    const i32 first = x.begin + (fragment / kAcross * kWarpsK + Base::part_of_k()) * kDepth +
                      fragment % kAcross * 16;
    const T* from =
        kPrologueRows > 0
            ? Base::made_rows(shared) + (row < kPrologueRows ? row : kPrologueRows - 1) * kRowStride
            : rows + row * x.stride_a;
    const bool valid = (kTasks % 32 == 0 || task < kTasks) && (kPrologueRows > 0 || row < x.rows);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Prologue rows are padded to whole steps.
      const i32 k = first + half * 8;
      if (valid && has_depth(x, kPrologueRows > 0 ? first : k))
        held[half] = load<kWords>(reinterpret_cast<const u32*>(from + k) + task % kShare * kWords);
      else
        held[half] = {};
    }
  }

  /// Converts this warp's elements of x to slices. `unit`: the value of 1 in the row of the lane's
  /// columns.
  SINTER_DEVICE static void make_slices(unsigned char* shared, const Operands& x,
                                        float (&unit)[kTiles]) {
    typedef Int8Slices<kSlices> Numbers;
    const int lane = threadIdx.x % 32;
    unsigned char* const own = slices_of(shared);
    const T* const rows = kPrologueRows > 0 ? nullptr : after_grid_wait(x.a);
#pragma unroll
    for (int row = 0; row < kM; ++row) {
      Held held[kEach];
      u32 most = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) load_task(held[i], shared, rows, x, row, lane + i * 32);
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int t = 0; t < 2 * kWords; ++t)
          most = larger_pair<T>(most, held[i][t / kWords].v[t % kWords] & 0x7fff7fffu);
      most = largest_of_warp(maximum(most & 0xffffu, most >> 16));
      const u32 exponent = Numbers::exponent_of(widen(T{static_cast<u16>(most)}));
      const float scale = Numbers::scale_of(exponent);
      if (row % kRowsOfTile == lane % 4 * 2 / kRoom)
        unit[row / kRowsOfTile] = Numbers::unit_of(exponent);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int task = lane + i * 32, fragment = task / kShare;
        if (kTasks % 32 != 0 && task >= kTasks) break;
        unsigned char* const to = own + fragment / 4 * kBlockBytes + row * kSlices * 64 +
                                  task % kShare * kWords * 16 + fragment % 4 * 4;
#pragma unroll
        for (int t = 0; t < kWords; ++t) {
          const u32 near = held[i][0].v[t], far = held[i][1].v[t];
          const u32 q[4] = {
              Numbers::number(low_of<T>(near), scale), Numbers::number(low_of<T>(far), scale),
              Numbers::number(high_of<T>(near), scale), Numbers::number(high_of<T>(far), scale)};
          u32 slices[kSlices];
          Numbers::split(slices, q);
#pragma unroll
          for (int d = 0; d < kSlices; ++d)
            *reinterpret_cast<u32*>(to + d * 64 + t * 16) = slices[d];
        }
      }
    }
    __syncwarp();
  }

  /// Addresses of this lane's MMA columns, in the slices of 64 k's.
  SINTER_DEVICE static void find_columns(const unsigned char* (&columns)[kTiles],
                                         const unsigned char* slices) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {  // columns without a row or slice duplicate others
      const int row = j * kRowsOfTile + lane / 4 / kRoom, slice = lane / 4 % kRoom;
      const int column =
          (row < kM ? row : kM - 1) * kSlices + (slice < kSlices ? slice : kSlices - 1);
      columns[j] = slices + column * 64 + lane % 4 * 16;
    }
  }
  SINTER_DEVICE static void multiply_tile(i32 (&accumulators)[4], const u32 (&left)[4],
                                          const uint4& right, int k) {
    mma_fragments<i8, i8>(accumulators, left, k % 64 == 0 ? right.x : right.z,
                          k % 64 == 0 ? right.y : right.w);
  }
  SINTER_DEVICE static void add_slices(i32 (&accumulators)[4], const uint4& right, int k) {
    constexpr u32 kOnes[4] = {0x01010101u, 0x01010101u, 0x01010101u, 0x01010101u};
    multiply_tile(accumulators, kOnes, right, k);
  }

  /// This warp's MMAs of one step; `slices` begins at its first k.
  SINTER_DEVICE static void multiply_slices(Accumulators& accumulators, unsigned char* stage,
                                            const unsigned char* slices) {
    const unsigned char* weights = Base::weights_of(stage);
    const unsigned char* columns[kTiles];
    find_columns(columns, slices);
    uint4 right[kTiles], bits[kUnits];
#pragma unroll
    for (int fold = 0; fold < kFolds; ++fold) {
      Exact part = {};
      i32 all[kTiles][4] = {};  // sums of slices, for groups with zero points
#pragma unroll
      for (int at = 0; at < kFold; at += 32) {
        const int k = fold * kFold + at;
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          if (k % 64 == 0) right[j] = load_shared_x4(columns[j] + k / 64 * kBlockBytes);
          if constexpr (Scaling::kZeros) add_slices(all[j], right[j], k);
        }
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
          if (k % Weights::kUnitDepth == 0) bits[i] = Base::load_unit(weights, i, k);
          u32 left[4];
          Left::of(left, bits[i], k % Weights::kUnitDepth / 32);
#pragma unroll
          for (int j = 0; j < kTiles; ++j) {
            if constexpr (kGrouped) {
              multiply_tile(part[i][j], left, right[j], k);
            } else {
              multiply_tile(accumulators[i][j], left, right[j], k);
            }
          }
        }
      }
      if constexpr (kGrouped) {
        scale_group(accumulators, part, all, weights, fold);
      }
    }
  }

  /// Scales and adds the accumulators of group `fold` of a step.
  SINTER_DEVICE static void scale_group(Accumulators& accumulators, const Exact& part,
                                        const i32 (&all)[kTiles][4], const unsigned char* weights,
                                        int fold) {
    const int g = threadIdx.x % 32 / 4;
    const unsigned char* const behind = weights + Base::kWeightBytes;
    const S* const scales = reinterpret_cast<const S*>(behind) + fold * 16 + g;
    const T* const zeros = reinterpret_cast<const T*>(behind + Base::kScaleBytes) + fold * 16 + g;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = i * kFolds * 16 + half * 8;
        const float scale = widen(scales[at]);
        float zero = 0;
        if constexpr (Scaling::kZeros) {
          zero = widen(zeros[at]) * Left::kLevels;
        }
#pragma unroll
        for (int j = 0; j < kTiles; ++j)
#pragma unroll
          for (int e = half * 2; e < half * 2 + 2; ++e) {
            float sum = static_cast<float>(part[i][j][e]);
            if constexpr (Scaling::kZeros) {
              sum -= zero * static_cast<float>(all[j][e]);
            }
            accumulators[i][j][e] += sum * scale;
          }
      }
  }

  /// After begin(): fills `shared` with the block's accumulators, which sum() reads.
  SINTER_DEVICE static void multiply(unsigned char* shared, const Operands& x) {
    const int steps = Base::count_steps(x);
    float unit[kTiles] = {};
    make_slices(shared, x, unit);
    Accumulators accumulators = {};
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      cp_async_wait<kStages - 2>();
      __syncwarp();
      const int next = s + kStages - 1;
      if (next < steps) Base::copy_weights(x, shared, next);
      cp_async_commit();
      multiply_slices(accumulators, Base::stage_of(shared, s),
                      slices_of(shared) + s * (kDepth / 64) * kBlockBytes);
    }
    cp_async_wait<0>();
    __syncthreads();  // the accumulators overwrite the stages
    write_accumulators(shared, accumulators, unit);
    if (kSplitK > 1)
      cluster_barrier();
    else
      __syncthreads();
  }

  /// Combines each row's slices: those of a lane, and of its neighbour if there are three.
  SINTER_DEVICE static void write_accumulators(unsigned char* shared,
                                               const Accumulators& accumulators,
                                               const float (&unit)[kTiles]) {
    const int lane = threadIdx.x % 32, slice = lane % 4 * 2 % kRoom;
    float* const part = reinterpret_cast<float*>(shared) +
                        Base::part_of_k() * kM * Base::kAccumulatorStride + lane / 4;
    const float first = slice == 0 ? 1.0f : 65536.0f;
    const float second = slice + 1 < kSlices ? first * 256.0f : 0.0f;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int row = j * kRowsOfTile + lane % 4 * 2 / kRoom;
#pragma unroll
      for (int i = 0; i < kUnits; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int n = i * 16 + half * 8;
          float sum = static_cast<float>(accumulators[i][j][half * 2]) * first +
                      static_cast<float>(accumulators[i][j][half * 2 + 1]) * second;
          if constexpr (kRoom == 4) {
            sum += exchange(sum, 1);
          }
          float scale = 1.0f / Left::kLevels;
          if constexpr (Base::kByColumn) {
            scale *= widen(reinterpret_cast<const S*>(shared + Base::kRingBytes)[n + lane / 4]);
          }
          if (row < kM && slice == 0)
            part[row * Base::kAccumulatorStride + n] = sum * scale * unit[j];
        }
    }
  }
};
