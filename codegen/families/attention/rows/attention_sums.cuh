// SPDX-License-Identifier: Apache-2.0
// Common code of the two register layouts of attention rows (AttentionRows, SwappedRows): units of
// scores, and results from sums.
#pragma once

#include "attention_problem.cuh"
#include "attention_result.cuh"
#include "attention_scaled_rows.cuh"

/// 2^x, error at most 2 ulp; flushes subnormal results to zero.
SINTER_DEVICE float fast_exp2(float x) {
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

/// Loads two adjacent elements into one register.
template <bool kPairs, class T>
SINTER_DEVICE u32 load_pair(const T* p) {
  if constexpr (kPairs) return *reinterpret_cast<const u32*>(p);
  return static_cast<u32>(p[0].bits) | static_cast<u32>(p[1].bits) << 16;
}
/// Columns `first` + `t` and the next one of queries, from columns `t` on; zero past the head.
template <class Shape, class T>
SINTER_DEVICE u32 load_columns(const T* from, int first, int t) {
  constexpr int kColumns = Shape::kHeadColumns;
  if (kColumns == Shape::kHead || first + t + 1 < kColumns)
    return load_pair<Shape::kPairs>(from + first);
  return first + t < kColumns ? static_cast<u32>(from[first].bits) : 0;
}
/// Stores two adjacent results at `to`.
template <class Shape, bool kPairs = Shape::kPairs>
SINTER_DEVICE void store_pair(const AttentionProblem<Shape>& p, typename Shape::Result* to,
                              float low, float high) {
  typedef typename Shape::Result Result;
  if constexpr (Shape::kRoundsResult) {
    const u32 pair = RoundedPair<Result>::of(low, high, p.y_zero);
    if constexpr (kPairs) {
      *reinterpret_cast<u16*>(to) = static_cast<u16>(pair);
    } else {
      *reinterpret_cast<u8*>(to) = static_cast<u8>(pair);
      *reinterpret_cast<u8*>(to + 1) = static_cast<u8>(pair >> 8);
    }
  } else {
    const u32 pair = pack_pair<Result>(low, high);
    if constexpr (kPairs) {
      *reinterpret_cast<u32*>(to) = pair;
    } else {
      to[0].bits = static_cast<u16>(pair);
      to[1].bits = static_cast<u16>(pair >> 16);
    }
  }
}

/// Stores columns `column` and the next one of a row of results, if they exist.
template <class Shape>
SINTER_DEVICE void store_columns(const AttentionProblem<Shape>& p, typename Shape::Result* row,
                                 int column, float low, float high) {
  constexpr int kColumns = Shape::kValueColumns;
  if (kColumns == Shape::kValueHead || column + 1 < kColumns)
    return store_pair(p, row + column, low, high);
  if (column >= kColumns) return;
  if constexpr (Shape::kRoundsResult) {
    const u32 pair = RoundedPair<typename Shape::Result>::of(low, high, p.y_zero);
    *reinterpret_cast<u8*>(row + column) = static_cast<u8>(pair);
  } else {
    row[column].bits = static_cast<u16>(pack_pair<typename Shape::Result>(low, high));
  }
}

/// A class of static functions.
template <class Shape>
struct AttentionSums {
  typedef AttentionProblem<Shape> Problem;
  static constexpr bool kHasMask = MaskTile<Shape>::kHasMask;
  static constexpr float kLarge = 1e6f;  // of a score's replacement, in base 2
  /// For 8-bit rows: scores are scaled by 1 / kKeyUnit. Weights include scales times ScaledRow's
  /// kUnit, so that sums of values are too large by kValuesOver.
  typedef WidenedWord<typename Shape::T, typename Shape::Key> Word;
  static constexpr float kKeyUnit = Word::kUnit,
                         kValuesOver = ScaledRow<typename Shape::Key>::kUnit / Word::kUnit;

  /// Whether scores are multiplied to base 2 only after the maximum is known: one FMA for each
  /// element.
  SINTER_DEVICE static bool scaled_late(const Problem& p) {
    if (kHasMask && (p.fill > kLarge || p.scale < 1e-6f || p.scale > 1e6f)) return false;
    return !MaskTile<Shape>::kAdds && p.scale > 0;
  }
  /// The replacement of a score, in the scores' unit. Rounding a large value at scaling would shift
  /// it far; a power of two is exact.
  SINTER_DEVICE static float fill_of(const Problem& p) {
    if (!kHasMask || !scaled_late(p) || p.fill == -infinity()) return p.fill;
    return p.fill < -kLarge ? -0x1p100f : p.fill / unit(p);
  }
  SINTER_DEVICE static float unit(const Problem& p) {
    return scaled_late(p) ? p.scale * kLog2E : 1.0f;
  }
  /// The maximum subtracted in base 2; 0 while all scores are -inf.
  SINTER_DEVICE static float base_of(float maximum, float unit) {
    return maximum == -infinity() ? 0.0f : maximum * unit;
  }

  /// Factor that rescales sums from maximum `before` to `base`; exactly 1 if the maximum is
  /// unchanged. Therefore no FMA: it would keep the rounding error of `base`.
  SINTER_DEVICE static float shrink_of(float before, float unit, float base) {
#ifdef __CUDACC__
    return fast_exp2(__fmul_rn(before, unit) - base);
#else
    return fast_exp2(before * unit - base);
#endif
  }

  /// The sum `total` of a row's weights, relative to `most`, with that of its sink.
  SINTER_DEVICE static float with_sink(const Problem& p, i32 row, float most, float total) {
    if constexpr (Shape::Score::kSinks) {
      const float weight = fast_exp2(p.sink_of(row) * kLog2E - base_of(most, unit(p)));
      total += Shape::kScaled ? weight * kValuesOver : weight;
    }
    return total;
  }
  /// Factor from a row's sums to its results; `drop` means that the results are zero.
  SINTER_DEVICE static float inverse_of(const Problem& p, float total, bool& drop) {
    drop = Shape::kGuard == 1 && total != total;
    // The sum is zero only if all scores are -inf: 0 / 0 = NaN, or zero if guarded. Over no keys
    // the result is zero.
    if (Shape::kGuard != 0 && total == 0) return 1;
    const float inverse = p.keys > 0 ? divide(1.0f, total) : 0.0f;
    if constexpr (Shape::kRoundsResult || Shape::kEightBit) return inverse * p.y_factor;
    return inverse;
  }

  /// Combines the partial results that put() wrote, kParts of them, limited to those in `present`.
  /// The block's threads divide the pairs of columns among themselves. Each calls `use(row, column,
  /// low, high, maximum, sum)` with the row's maximum and sum.
  template <int kParts, class Use>
  SINTER_DEVICE static void merge(const Problem& p, const float* parts, const Use& use,
                                  u32 present = ~0u) {
    constexpr int kPairs = Shape::kValueHead / 2;
    const float factor = unit(p);
    const i32 rows = p.rows - p.first_row < Shape::kRows ? p.rows - p.first_row : Shape::kRows;
    for (i32 i = threadIdx.x; i < rows * kPairs; i += Shape::kThreads * Shape::kKeyGroups) {
      const i32 row = i / kPairs, column = i % kPairs * 2;
      const float* const from = parts + row * Shape::kPartPitch;
      float maximum = -infinity();
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        if ((present >> part & 1) != 0)
          maximum = fmaxf(maximum, from[part * Shape::kPartFloats + Shape::kValueHead]);
      const float base = base_of(maximum, factor);
      float low = 0, high = 0, total = 0;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if ((present >> part & 1) == 0) continue;
        const float* const own = from + part * Shape::kPartFloats;
        const float weight = fast_exp2(own[Shape::kValueHead] * factor - base);
        low += own[column] * weight;
        high += own[column + 1] * weight;
        total += own[Shape::kValueHead + 1] * weight;
      }
      use(row, column, low, high, maximum, total);
    }
  }

  /// Writes two columns of the result.
  SINTER_DEVICE static void store_merged(const Problem& p, i32 row, i32 column, float low,
                                         float high, float most, float total) {
    bool drop;
    const float inverse = inverse_of(p, with_sink(p, p.first_row + row, most, total), drop);
    store_columns(p, p.y + p.result_at(p.first_row + row), column, drop ? 0 : low * inverse,
                  drop ? 0 : high * inverse);
  }
};
