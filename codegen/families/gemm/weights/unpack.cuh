// SPDX-License-Identifier: Apache-2.0
// Unpacks weights to a matrix of 16-bit floats in memory, for kernels and libraries that need
// it.
#pragma once

#include "cluster.cuh"
#include "packed_weights.cuh"

/// A warp unpacks 16 columns by kDepth of k, a block adjacent such ranges. Weights are (q - zero) *
/// scale * factor in float32, rounded to T. kGroup 0: one scale for each column.
template <class T, class Weights, class Scaling, int kDepth, int kWarps>
struct Unpacking {
  typedef typename Scaling::Stored S;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kUnitDepth = Weights::kUnitDepth, kUnits = kDepth / kUnitDepth;
  static constexpr int kStride = kDepth + 8;  // rows start in different banks
  static constexpr int kSharedBytes = kWarps * 16 * kStride * 2;
  static constexpr int kAcross = kDepth / 8;  // lanes that store one row
  static_assert(kDepth % kUnitDepth == 0 && 32 % kAcross == 0 && kAcross >= 4, "whole warps");

  struct Operands {
    const unsigned char* b;
    const S* scales;
    const T* zeros;
    T* result;   // [columns][depth]
    i32 depth;   // k of the packed weights, a multiple of kDepth
    i32 groups;  // per column
    u32 blocks;  // of columns
    const float* factors;
  };

  /// `task`: index of the range of kDepth and of the 16 columns.
  template <bool kProgrammatic>
  SINTER_DEVICE static void run(unsigned char* shared, const Operands& x, u32 block) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 task = block * kWarps + static_cast<u32>(warp);
    const u32 across = static_cast<u32>(x.depth / kDepth);
    const u32 columns = task / across;
    const i32 k = static_cast<i32>(task % across) * kDepth;
    const bool valid = columns < x.blocks;
    uint4 bits[kUnits];
    if (valid) {
      const unsigned char* from =
          x.b + (static_cast<i64>(columns) * (x.depth / kUnitDepth) + k / kUnitDepth) * 512 +
          lane * 16;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) bits[u] = *reinterpret_cast<const uint4*>(from + u * 512);
    }
    T* const tile = reinterpret_cast<T*>(shared) + warp * 16 * kStride;
    if (valid) widen_tile(tile, bits, x, static_cast<i64>(columns) * x.groups * 16, k);
    __syncwarp();
    if (kProgrammatic) grid_dependency_wait();  // its memory may overlap the result
    if (!valid) return;
    T* const to = x.result + (static_cast<i64>(columns) * 16 + lane / kAcross) * x.depth + k +
                  lane % kAcross * 8;
    const T* const from = tile + lane / kAcross * kStride + lane % kAcross * 8;
#pragma unroll
    for (int row = 0; row < 16; row += 32 / kAcross)
      store(to + static_cast<i64>(row) * x.depth, load<8>(from + row * kStride));
  }

  SINTER_DEVICE static void widen_tile(T* tile, const uint4 (&bits)[kUnits], const Operands& x,
                                       i64 first, i32 k) {
    constexpr int kGroup = Scaling::kGroup;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4 * 2;
    float scale[2], zero[2] = {0, 0};
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
#pragma unroll
      for (int j = 0; j < kUnitDepth / 16; ++j) {
        const int at = u * kUnitDepth + j * 16;
        // Groups start at fragments; if they are whole tiles, once is enough.
        if (at == 0 || (kGroup > 0 && kGroup % kDepth != 0)) {
          const i64 offset =
              first +
              (kGroup > 0 ? static_cast<i64>((k + at) / (kGroup > 0 ? kGroup : 1)) * 16 : 0) + g;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            scale[half] = widen(x.scales[offset + half * 8]);
            if (Scaling::kZeros) zero[half] = widen(x.zeros[offset + half * 8]);
            if (Scaling::kFactors) scale[half] *= x.factors[first / x.groups + g + half * 8];
          }
        }
        u32 a[4];
        Weights::template widen_unit<T>(a, bits[u], j);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float low = (low_of<T>(a[r]) - zero[r % 2]) * scale[r % 2];
          const float high = (high_of<T>(a[r]) - zero[r % 2]) * scale[r % 2];
          *reinterpret_cast<u32*>(tile + (g + r % 2 * 8) * kStride + at + r / 2 * 8 + t) =
              pack_pair<T>(low, high);
        }
      }
  }
};
