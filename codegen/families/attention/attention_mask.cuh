// SPDX-License-Identifier: Apache-2.0
// Masks of attention: a lane's part of a mask for one tile of keys, and how scores apply it.
#pragma once

#include "math.cuh"
#include "mma.cuh"

constexpr float kLog2E = 1.4426950408889634f;

struct NoMask {};

/// Ballot: one bit for each lane.
SINTER_DEVICE u32 votes_of_warp(bool x) { return __ballot_sync(0xffffffffu, x); }

/// Whether some finite values become infinite when multiplied by log2(e).
template <class Mask>
constexpr bool kMayBeLowest = true;
template <>
constexpr bool kMayBeLowest<f16> = false;

/// Two elements of an additive mask.
template <class Mask>
struct MaskPair {  // 16 bits each
  u32 bits;

  SINTER_DEVICE void load(const Mask* p) { bits = *reinterpret_cast<const u32*>(p); }
  SINTER_DEVICE void set(Mask low, Mask high) {
    bits = static_cast<u32>(low.bits) | static_cast<u32>(high.bits) << 16;
  }
  SINTER_DEVICE float at(int i) const { return i == 0 ? low_of<Mask>(bits) : high_of<Mask>(bits); }
};
template <>
struct alignas(8) MaskPair<float> {
  float low, high;

  SINTER_DEVICE void load(const float* p) { *this = *reinterpret_cast<const MaskPair*>(p); }
  SINTER_DEVICE void set(float low_, float high_) {
    low = low_;
    high = high_;
  }
  SINTER_DEVICE float at(int i) const { return i == 0 ? low : high; }
};

/// A lane's part of the mask of `Shape` (AttentionShape) over one tile of keys: keys
/// Shape::key_of(j, t) and the following one, of rows row_of(i / 2, i % 2).
template <class Shape, class Mask = typename Shape::Mask>
struct MaskTile {  // additive, of floats
  static constexpr bool kHasMask = true, kAdds = true;
  static constexpr int kRows = Shape::kMaskRows ? Shape::kRowTiles * 2 : 1;
  static constexpr int kTiles = Shape::kMaskKeys ? Shape::kKeyTiles : 1;
  MaskPair<Mask> values[kRows][kTiles];

  template <class Problem, class RowOf>
  SINTER_DEVICE void load(const Problem& p, i32 key0, int t, RowOf row_of) {
    const bool whole = key0 + Shape::kKeys <= p.keys;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const i32 row = Shape::kMaskRows ? row_of(i / 2, i % 2) : 0;
      const Mask* const from = p.mask + (row < p.rows ? row : p.rows - 1) * p.mask_row;
      if constexpr (!Shape::kMaskKeys) {
        values[i][0].set(*from, *from);
      } else if (whole) {
        const Mask* const first = from + (key0 + Shape::key_of(0, t)) * p.mask_key;
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          const int further = Shape::key_of(j, 0);
          if constexpr (Shape::kMaskPairs)
            values[i][j].load(first + further);
          else
            values[i][j].set(first[further * p.mask_key], first[(further + 1) * p.mask_key]);
        }
      } else {
        const auto element = [&](i32 key) {
          return from[(key < p.keys ? key : p.keys - 1) * p.mask_key];
        };
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          const i32 key = key0 + Shape::key_of(j, t);
          values[i][j].set(element(key), element(key + 1));
        }
      }
    }
  }
  SINTER_DEVICE bool lets_all_through() const { return false; }
  /// Finite values stay finite in base 2: a mask value of the lowest float is not minus infinity.
  SINTER_DEVICE float apply(float score, int row, int column, float) const {
    constexpr float kLowest = -2.3e38f;
    float x = values[Shape::kMaskRows ? row : 0][Shape::kMaskKeys ? column / 2 : 0].at(column % 2);
    if constexpr (kMayBeLowest<Mask>) x = x < kLowest && x > -infinity() ? kLowest : x;
    return score + x * kLog2E;
  }
};

template <class Shape>
struct MaskTile<Shape, b8> {  // boolean: scores are replaced where it is false
  static constexpr bool kHasMask = true, kAdds = false;
  /// All rows share the mask: 32 keys are one word, loaded by the warp together.
  static constexpr bool kByKey = Shape::kMaskKeys && !Shape::kMaskRows && Shape::kKeys % 32 == 0;
  static constexpr int kRows = Shape::kMaskRows ? Shape::kRowTiles * 2 : 1;
  static constexpr int kColumns = Shape::kMaskKeys ? Shape::kKeyTiles * 2 : 1;
  u32 bits[kByKey ? Shape::kKeys / 32 : kRows];
  bool all;

  template <class Problem, class RowOf>
  SINTER_DEVICE void load(const Problem& p, i32 key0, int t, RowOf row_of) {
    all = kByKey;
    if constexpr (kByKey) {
      const i32 first = key0 + static_cast<i32>(threadIdx.x % 32);
#pragma unroll
      for (int w = 0; w < Shape::kKeys / 32; ++w) {
        const i32 key = first + w * 32;
        const u32 word = votes_of_warp(key >= p.keys || widen(p.mask[key * p.mask_key]));
        all = all && word == 0xffffffffu;
        bits[w] = word >> Shape::key_of(0, t);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const i32 row = Shape::kMaskRows ? row_of(i / 2, i % 2) : 0;
        const b8* const from = p.mask + (row < p.rows ? row : p.rows - 1) * p.mask_row;
        bits[i] = 0;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const i32 key = key0 + Shape::key_of(c / 2, t) + c % 2;
          const b8 element = from[(key < p.keys ? key : p.keys - 1) * p.mask_key];
          bits[i] |= static_cast<u32>(widen(element)) << c;
        }
      }
    }
  }
  /// Whether all lanes of the warp pass everything.
  SINTER_DEVICE bool lets_all_through() const { return all; }
  SINTER_DEVICE float apply(float score, int row, int column, float fill) const {
    u32 word;
    if constexpr (kByKey)
      word = bits[column / 8] >> (Shape::key_of(column / 2 % 4, 0) + column % 2);
    else
      word = bits[Shape::kMaskRows ? row : 0] >> (Shape::kMaskKeys ? column : 0);
    return (word & 1) != 0 ? score : fill;
  }
};

template <class Shape>
struct MaskTile<Shape, NoMask> {
  static constexpr bool kHasMask = false, kAdds = false;
  template <class Problem, class RowOf>
  SINTER_DEVICE void load(const Problem&, i32, int, RowOf) {}
  SINTER_DEVICE bool lets_all_through() const { return true; }
  SINTER_DEVICE float apply(float score, int, int, float) const { return score; }
};
