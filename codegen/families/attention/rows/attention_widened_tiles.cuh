// SPDX-License-Identifier: Apache-2.0
// 8-bit keys and values for attention by warpgroups, whose tiles have 16-bit floats: the producer
// warps convert them.
#pragma once

#include "attention_scaled_rows.cuh"
#include "warpgroup.cuh"

#ifdef SINTER_WARPGROUPS

/// Multiplies a pair of T by `factor`, rounded to T.
template <class T>
SINTER_DEVICE u32 scale_pair(u32 pair, float factor) {
  const float rounded = low_of<T>(pack_pair<T>(factor, factor));
  return pack_pair<T>(low_of<T>(pair) * rounded, high_of<T>(pair) * rounded);
}
#ifdef __CUDACC__
template <>
SINTER_DEVICE u32 scale_pair<f16>(u32 pair, float factor) {
  u32 result;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(pair), "r"(pack_pair<f16>(factor, factor)));
  return result;
}
template <>
SINTER_DEVICE u32 scale_pair<bf16>(u32 pair, float factor) {
  u32 result;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(pair), "r"(pack_pair<bf16>(factor, factor)));
  return result;
}
#endif

/// Staging buffer of kKeys rows of kWidth elements. 128 threads request units of 16 bytes and
/// their rows' scales (request), and widen them after arrival (widen_to). A thread reads only
/// what it requested itself: threads need not synchronize. `memory` has kBytes, 16-byte
/// aligned.
template <class Shape, int kWidth>
struct WidenedTile {
  typedef typename Shape::T T;
  typedef typename Shape::Key Key;
  static constexpr int kUnits = kWidth / 16, kAll = Shape::kKeys * kUnits,
                       kTurns = (kAll + 127) / 128, kScalesAt = kTurns * 128 * 16,
                       kBytes = kScalesAt + kTurns * 128 * 4;

  unsigned char* memory;
  int thread;

  SINTER_DEVICE unsigned char* unit(int turn) const { return memory + (turn * 128 + thread) * 16; }
  SINTER_DEVICE float* scale(int turn) const {
    return reinterpret_cast<float*>(memory + kScalesAt) + turn * 128 + thread;
  }
  SINTER_DEVICE bool has(int turn) const { return kAll % 128 == 0 || turn * 128 + thread < kAll; }
  SINTER_DEVICE int row(int turn) const { return (turn * 128 + thread) / kUnits; }
  SINTER_DEVICE int column(int turn) const { return (turn * 128 + thread) % kUnits * 16; }

  /// Starts a copy of rows [first, first + kKeys) of `count`: row r is row_of(r) of `from` and of
  /// `scales`. Rows from `count` on become zeros.
  template <class RowOf>
  SINTER_DEVICE void request(const Key* from, i64 stride, const float* scales, i64 scale_stride,
                             i32 first, i32 count, const RowOf& row_of) const {
#pragma unroll 4
    for (int turn = 0; turn < kTurns; ++turn) {
      if (!has(turn)) break;
      const i32 key = first + row(turn);
      const bool exists = key < count;
      const i64 at = exists ? row_of(key) : 0;
      cp_async<16>(unit(turn), from + at * stride + column(turn), exists);
      cp_async<4>(scale(turn), scales + at * scale_stride, exists);
    }
  }

  SINTER_DEVICE void widen_to(T* tile) const {
#pragma unroll 2
    for (int turn = 0; turn < kTurns; ++turn) {
      if (!has(turn)) break;
      const uint4 bytes = *reinterpret_cast<const uint4*>(unit(turn));
      const float factor = *scale(turn) * ScaledRow<Key>::kUnit;
      const uint4 low = widened(bytes.x, bytes.y, factor), high = widened(bytes.z, bytes.w, factor);
      *reinterpret_cast<uint4*>(tile + swizzled_place<Shape::kKeys>(row(turn), column(turn))) = low;
      *reinterpret_cast<uint4*>(tile + swizzled_place<Shape::kKeys>(row(turn), column(turn) + 8)) =
          high;
    }
  }

 private:
  SINTER_DEVICE static uint4 widened(u32 first, u32 second, float factor) {
    uint4 result;
    widen_word(first, factor, result.x, result.y);
    widen_word(second, factor, result.z, result.w);
    return result;
  }
  /// Pairs of elements 0 and 1, and 2 and 3, of a word.
  SINTER_DEVICE static void widen_word(u32 word, float factor, u32& low, u32& high) {
    typedef WidenedWord<T, Key> Word;
    u32 first, second;
    widen_bytes<T, Key>(word, first, second);
    if constexpr (Word::kUnit != ScaledRow<Key>::kUnit) {
      first = scale_pair<T>(first, Word::kUnit / ScaledRow<Key>::kUnit);
      second = scale_pair<T>(second, Word::kUnit / ScaledRow<Key>::kUnit);
    }
    first = scale_pair<T>(first, factor);
    second = scale_pair<T>(second, factor);
    low = Word::kNeighbours ? first : (first & 0xffffu) | second << 16;
    high = Word::kNeighbours ? second : first >> 16 | (second & 0xffff0000u);
  }
};

#endif  // SINTER_WARPGROUPS
