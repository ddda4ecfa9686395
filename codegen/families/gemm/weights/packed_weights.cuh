// SPDX-License-Identifier: Apache-2.0
// Storage formats of weights, with their conversion to fragments of 16-bit floats in a lane, and
// their scales.
#pragma once

#include "float8.cuh"
#include "mma.cuh"
#include "vector.cuh"

// ---- pairs of 16-bit values
/// x - y and x * y + z of pairs of T, each rounded once.
template <class T>
SINTER_DEVICE u32 subtract_pairs(u32 x, u32 y);
template <class T>
SINTER_DEVICE u32 multiply_add_pairs(u32 x, u32 y, u32 z);
#ifdef __CUDACC__
#define SINTER_PAIRS(T, type)                                                       \
  template <>                                                                       \
  SINTER_DEVICE u32 multiply_add_pairs<T>(u32 x, u32 y, u32 z) {                    \
    u32 result;                                                                     \
    asm("fma.rn." type " %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(z)); \
    return result;                                                                  \
  }
SINTER_PAIRS(f16, "f16x2")
SINTER_PAIRS(bf16, "bf16x2")
#undef SINTER_PAIRS
template <>
SINTER_DEVICE u32 subtract_pairs<f16>(u32 x, u32 y) {
  u32 result;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y));
  return result;
}
template <>
SINTER_DEVICE u32 subtract_pairs<bf16>(u32 x, u32 y) {  // sm_80 lacks the instruction
  return multiply_add_pairs<bf16>(y, 0xbf80bf80u, x);
}
#else
template <class T>
SINTER_DEVICE u32 subtract_pairs(u32 x, u32 y) {
  return pack_pair<T>(low_of<T>(x) - low_of<T>(y), high_of<T>(x) - high_of<T>(y));
}
template <class T>
SINTER_DEVICE u32 multiply_add_pairs(u32 x, u32 y, u32 z) {
  return pack_pair<T>(low_of<T>(x) * low_of<T>(y) + low_of<T>(z),
                      high_of<T>(x) * high_of<T>(y) + high_of<T>(z));
}
#endif

/// (x & mask) | bits. For two constants the compiler would emit two instructions.
SINTER_DEVICE u32 mask_and_set(u32 x, u32 mask, u32 bits) {
#ifdef __CUDACC__
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(x), "r"(mask), "r"(bits));
  return result;
#else
  return (x & mask) | bits;
#endif
}

// ---- storage formats of weights
// Packed weights are units of 512 bytes: 16 columns by kUnitDepth of k, 16 bytes for each lane
// of a warp, in fragment order (codegen/families/gemm/weights/weight_pack.h). Integers are
// biased to be unsigned. Their bits become the low bits of a mantissa, which makes the
// conversion exact.

/// Elements of x's type.
struct PackedElements {
  static constexpr int kUnitDepth = 16;
  static constexpr bool kRowsAreK = false, kPacked = true;
  template <class T>
  SINTER_DEVICE static void widen_unit(u32 (&a)[4], const uint4& unit, int) {
    a[0] = unit.x, a[1] = unit.y, a[2] = unit.z, a[3] = unit.w;
  }
};

/// Bytes for -128 .. 127.
struct PackedBytes {
  static constexpr int kUnitDepth = 32;
  static constexpr bool kRowsAreK = false, kPacked = true;
  /// Fragment `j` of a lane's 16 bytes.
  template <class T>
  SINTER_DEVICE static void widen_unit(u32 (&a)[4], const uint4& unit, int j);
};
template <>
SINTER_DEVICE void PackedBytes::widen_unit<f16>(u32 (&a)[4], const uint4& unit, int j) {
  const u32 words[2] = {j == 0 ? unit.x : unit.z, j == 0 ? unit.y : unit.w};
#pragma unroll
  for (int i = 0; i < 2; ++i) {  // 1024 + x, minus 1024 + 128
    a[i] = subtract_pairs<f16>(pick_bytes(words[i], 0x64646464u, 0x4240), 0x64806480u);
    a[i + 2] = subtract_pairs<f16>(pick_bytes(words[i], 0x64646464u, 0x4341), 0x64806480u);
  }
}
template <>
SINTER_DEVICE void PackedBytes::widen_unit<bf16>(u32 (&a)[4], const uint4& unit, int j) {
  // The mantissa has seven bits: 128 + these, minus 128 or 256, depending on the eighth bit.
  const u32 words[2] = {j == 0 ? unit.x : unit.z, j == 0 ? unit.y : unit.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 x = words[i % 2] >> (i / 2 * 8);
    a[i] = multiply_add_pairs<bf16>(mask_and_set(x, 0x007f007fu, 0x43004300u), 0x3f803f80u,
                                    (x & 0x00800080u) ^ 0xc380c380u);
  }
}

/// 8-bit floats.
struct PackedFloats {
  static constexpr int kUnitDepth = 32;
  static constexpr bool kRowsAreK = false, kPacked = true;
  template <class T>
  SINTER_DEVICE static u32 widen_both(u32 pair) {
    float low, high;
    widen_pair<e4m3fn>(pair, low, high);
    return pack_pair<T>(low, high);
  }
  /// Fragment `j` of a lane's 16 bytes, in which pairs are adjacent.
  template <class T>
  SINTER_DEVICE static void widen_unit(u32 (&a)[4], const uint4& unit, int j) {
    const u32 words[2] = {j == 0 ? unit.x : unit.z, j == 0 ? unit.y : unit.w};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[i] = widen_both<T>(words[i] & 0xffff);
      a[i + 2] = widen_both<T>(words[i] >> 16);
    }
  }
};
#ifdef SINTER_FLOAT8_CONVERTED
template <>
SINTER_DEVICE u32 PackedFloats::widen_both<f16>(u32 pair) {
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<u16>(pair)));
  return halves;
}
#endif

/// Nibbles for -8 .. 7.
struct PackedNibbles {
  static constexpr int kUnitDepth = 64;
  static constexpr bool kRowsAreK = false, kPacked = true;
  template <class T>
  SINTER_DEVICE static void widen_unit(u32 (&a)[4], const uint4& unit, int j);
};
template <>
SINTER_DEVICE void PackedNibbles::widen_unit<f16>(u32 (&a)[4], const uint4& unit, int j) {
  const u32 word = j == 0 ? unit.x : j == 1 ? unit.y : j == 2 ? unit.z : unit.w;
#pragma unroll
  for (int i = 0; i < 2; ++i) {  // 1024 + x minus 1024 + 8; for the upper nibble, (1024 + 16 x) /
                                 // 16
    const u32 x = word >> (i * 8);
    a[i * 2] = subtract_pairs<f16>(mask_and_set(x, 0x000f000fu, 0x64006400u), 0x64086408u);
    a[i * 2 + 1] = multiply_add_pairs<f16>(mask_and_set(x, 0x00f000f0u, 0x64006400u), 0x2c002c00u,
                                           0xd480d480u);
  }
}
template <>
SINTER_DEVICE void PackedNibbles::widen_unit<bf16>(u32 (&a)[4], const uint4& unit, int j) {
  const u32 word = j == 0 ? unit.x : j == 1 ? unit.y : j == 2 ? unit.z : unit.w;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    a[i] =
        subtract_pairs<bf16>(mask_and_set(word >> (i * 4), 0x000f000fu, 0x43004300u), 0x43084308u);
}

/// Floats of 4 bits, in the order of PackedNibbles: exponent and mantissa become the low exponent
/// and high mantissa of T, a factor corrects the bias. Subnormals stay what they are.
struct PackedFloats4 {
  static constexpr int kUnitDepth = 64;
  static constexpr bool kRowsAreK = false, kPacked = true;
  /// A pair of f16 before the factor.
  SINTER_DEVICE static u32 small_halves(u32 pair) {
    return (pair << 12 & 0x80008000u) | (pair << 9 & 0x0e000e00u);
  }
  template <class T>
  SINTER_DEVICE static u32 widen_nibbles(u32 pair);
  template <class T>
  SINTER_DEVICE static void widen_unit(u32 (&a)[4], const uint4& unit, int j) {
    const u32 word = j == 0 ? unit.x : j == 1 ? unit.y : j == 2 ? unit.z : unit.w;
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = widen_nibbles<T>(word >> (i * 4));
  }
};
template <>
SINTER_DEVICE u32 PackedFloats4::widen_nibbles<f16>(u32 pair) {  // 2^14
  return multiply_add_pairs<f16>(small_halves(pair), 0x74007400u, 0);
}
template <>
SINTER_DEVICE u32 PackedFloats4::widen_nibbles<bf16>(u32 pair) {  // 2^126
  return multiply_add_pairs<bf16>((pair << 12 & 0x80008000u) | (pair << 6 & 0x01c001c0u),
                                  0x7e807e80u, 0);
}

/// Unpacked elements of x's type: b[n][k] with k contiguous, or b[k][n].
struct RowsAreColumns {
  static constexpr int kUnitDepth = 16;
  static constexpr bool kRowsAreK = false, kPacked = false;
};
struct RowsAreK {
  static constexpr int kUnitDepth = 16;
  static constexpr bool kRowsAreK = true, kPacked = false;
};
/// Scales of weights: for a whole column (kGroup 0) or for each kGroup consecutive k's. S: storage
/// type. kZeros: zero points, of x's type, are subtracted first. kFactors: columns have a factor
/// besides.
template <class S, int kGroup_, bool kZeros_ = false, bool kFactors_ = false>
struct Scales {
  typedef S Stored;
  static constexpr int kGroup = kGroup_;
  static constexpr bool kZeros = kZeros_, kFactors = kFactors_, kScaled = true;
};
struct NoScales {
  typedef float Stored;
  static constexpr int kGroup = 0;
  static constexpr bool kZeros = false, kFactors = false, kScaled = false;
};
/// Weights whose columns have factors, which may make up for a power of two: kUnit times what
/// widen_unit() makes is a weight's value.
template <class T, class Weights>
struct FactoredWeights {
  static constexpr float kUnit = 1;
  SINTER_DEVICE static void widen_unit(u32 (&a)[4], const uint4& unit, int j) {
    Weights::template widen_unit<T>(a, unit, j);
  }
};
/// Subnormals of f16 hold the bits as they are; times an e4m3 scale, too, as multiples of 2^-24.
template <>
struct FactoredWeights<f16, PackedFloats4> {
  static constexpr float kUnit = 16384;
  SINTER_DEVICE static void widen_unit(u32 (&a)[4], const uint4& unit, int j) {
    const u32 word = j == 0 ? unit.x : j == 1 ? unit.y : j == 2 ? unit.z : unit.w;
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = PackedFloats4::small_halves(word >> (i * 4));
  }
};
/// What applies to a column's accumulators: its scale, or its factor, as floats of kFactors.
template <class S, bool kFactors>
struct OfColumns {
  typedef S Type;
};
template <class S>
struct OfColumns<S, true> {
  typedef float Type;
};
/// Two scales as floats.
template <class S>
SINTER_DEVICE void widen_scales(S a, S b, float& low, float& high) {
  low = widen(a);
  high = widen(b);
}
SINTER_DEVICE void widen_scales(e4m3fn a, e4m3fn b, float& low, float& high) {  // one conversion
  widen_pair<e4m3fn>(a.bits | static_cast<u32>(b.bits) << 8, low, high);
}
constexpr int greatest_common_divisor(int a, int b) {
  return b == 0 ? a : greatest_common_divisor(b, a % b);
}
/// Consecutive k's with one scale in every aligned range of `depth`.
template <class Scaling>
constexpr int fold_of(int depth) {
  return Scaling::kGroup > 0 ? greatest_common_divisor(Scaling::kGroup, depth) : depth;
}

// ---- layout
/// Columns of a tile, kN in all, which belong to kParts equal, adjacent parts (gated units,
/// say).
template <int kN, int kParts>
struct ColumnsOfParts {
  static_assert(kN % (16 * kParts) == 0, "parts are whole units");
  static constexpr int kEach = kN / kParts;
  /// The part of column `n` of the tile, and the column's index in it.
  SINTER_DEVICE static int part_of(int n) { return kParts == 1 ? 0 : n / kEach; }
  SINTER_DEVICE static int within_part(int n) { return kParts == 1 ? n : n % kEach; }
  /// Address of the units of the 16 columns at `n`; `stride` is between groups of 16, `part`
  /// between parts.
  SINTER_DEVICE static i64 unit_at(int n, i64 stride, i64 part) {
    return part_of(n) * part + within_part(n) / 16 * stride;
  }
};
