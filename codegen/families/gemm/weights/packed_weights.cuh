// What weights are stored as, and how a lane's part of them becomes the fragments of a product of
// 16-bit floats; their scales.
#pragma once

#include "float8.cuh"
#include "mma.cuh"
#include "vector.cuh"

// ---- pairs of 16-bit values
/// x - y and x * y + z of pairs of T, rounded once.
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
SINTER_DEVICE u32 subtract_pairs<bf16>(u32 x, u32 y) {  // sm_80 has no such instruction
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

/// (x & mask) | bits. What the compiler makes of that is two instructions if both are constants.
SINTER_DEVICE u32 mask_and_set(u32 x, u32 mask, u32 bits) {
#ifdef __CUDACC__
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(x), "r"(mask), "r"(bits));
  return result;
#else
  return (x & mask) | bits;
#endif
}

// ---- what weights are stored as
// Packed weights are units of 512 bytes: 16 columns of the product by kUnitDepth of k, 16 bytes for
// each lane of a warp in the order of its fragments (codegen/families/gemm/weights/weight_pack.h).
// Integers are biased, so that they are unsigned: their bits become the last of a mantissa, and the
// conversion is exact.

/// Elements of x's type.
struct PackedElements {
  static constexpr int kUnitDepth = 16;
  static constexpr bool kRowsAreK = false, kPacked = true;
  template <class T>
  SINTER_DEVICE static void widen_unit(u32 (&a)[4], const uint4& unit, int) {
    a[0] = unit.x, a[1] = unit.y, a[2] = unit.z, a[3] = unit.w;
  }
};

/// Bytes, which stand for -128 .. 127.
struct PackedBytes {
  static constexpr int kUnitDepth = 32;
  static constexpr bool kRowsAreK = false, kPacked = true;
  /// Fragment number `j` of a lane's 16 bytes.
  template <class T>
  SINTER_DEVICE static void widen_unit(u32 (&a)[4], const uint4& unit, int j);
};
template <>
SINTER_DEVICE void PackedBytes::widen_unit<f16>(u32 (&a)[4], const uint4& unit, int j) {
  const u32 words[2] = {j == 0 ? unit.x : unit.z, j == 0 ? unit.y : unit.w};
#pragma unroll
  for (int i = 0; i < 2; ++i) {  // 1024 + x, less 1024 + 128
    a[i] = subtract_pairs<f16>(pick_bytes(words[i], 0x64646464u, 0x4240), 0x64806480u);
    a[i + 2] = subtract_pairs<f16>(pick_bytes(words[i], 0x64646464u, 0x4341), 0x64806480u);
  }
}
template <>
SINTER_DEVICE void PackedBytes::widen_unit<bf16>(u32 (&a)[4], const uint4& unit, int j) {
  // A mantissa has room for seven bits: 128 + those, less 128 or 256 as the eighth says.
  const u32 words[2] = {j == 0 ? unit.x : unit.z, j == 0 ? unit.y : unit.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 x = words[i % 2] >> (i / 2 * 8);
    a[i] = multiply_add_pairs<bf16>(mask_and_set(x, 0x007f007fu, 0x43004300u), 0x3f803f80u,
                                    (x & 0x00800080u) ^ 0xc380c380u);
  }
}

/// Floats of 8 bits.
struct PackedFloats {
  static constexpr int kUnitDepth = 32;
  static constexpr bool kRowsAreK = false, kPacked = true;
  template <class T>
  SINTER_DEVICE static u32 widen_both(u32 pair) {
    float low, high;
    widen_pair<e4m3fn>(pair, low, high);
    return pack_pair<T>(low, high);
  }
  /// Fragment number `j` of a lane's 16 bytes, whose pairs are neighbours.
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

/// Half bytes, which stand for -8 .. 7.
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
  for (int i = 0; i < 2; ++i) {  // 1024 + x less 1024 + 8, and 1024 + 16 x as if a sixteenth of it
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

/// Elements of x's type as the model has them: b[n][k] with k contiguous, or b[k][n].
struct RowsAreColumns {
  static constexpr int kUnitDepth = 16;
  static constexpr bool kRowsAreK = false, kPacked = false;
};
struct RowsAreK {
  static constexpr int kUnitDepth = 16;
  static constexpr bool kRowsAreK = true, kPacked = false;
};
/// Scales of weights: of a whole column (kGroup 0) or of kGroup neighbouring k's each. S: as they
/// are stored. kZeros: what is subtracted from a group's weights first, of x's type.
template <class S, int kGroup_, bool kZeros_ = false>
struct Scales {
  typedef S Stored;
  static constexpr int kGroup = kGroup_;
  static constexpr bool kZeros = kZeros_, kScaled = true;
};
struct NoScales {
  typedef float Stored;
  static constexpr int kGroup = 0;
  static constexpr bool kZeros = false, kScaled = false;
};
constexpr int greatest_common_divisor(int a, int b) {
  return b == 0 ? a : greatest_common_divisor(b, a % b);
}
/// Neighbours along k that share a scale wherever so many as `depth` begin at a multiple of it.
template <class Scaling>
constexpr int fold_of(int depth) {
  return Scaling::kGroup > 0 ? greatest_common_divisor(Scaling::kGroup, depth) : depth;
}

// ---- where they are
/// Columns of a tile, kN in all, which are those of kParts equal parts of all side by side (a gate
/// and what it opens, say).
template <int kN, int kParts>
struct ColumnsOfParts {
  static_assert(kN % (16 * kParts) == 0, "parts are whole units");
  static constexpr int kEach = kN / kParts;
  /// Where column `n` of the tile is: in which part, and there.
  SINTER_DEVICE static int part_of(int n) { return kParts == 1 ? 0 : n / kEach; }
  SINTER_DEVICE static int within_part(int n) { return kParts == 1 ? n : n % kEach; }
  /// Where the units of the 16 columns from `n` on lie: `stride` from 16 to the next, `part` from
  /// one part to the next.
  SINTER_DEVICE static i64 unit_at(int n, i64 stride, i64 part) {
    return part_of(n) * part + within_part(n) / 16 * stride;
  }
};
