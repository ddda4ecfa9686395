// What both ways of holding rows of attention (AttentionRows, SwappedRows) share: units of scores,
// and results made of sums.
#pragma once

#include "attention_problem.cuh"
#include "attention_result.cuh"
#include "attention_scaled_rows.cuh"

/// 2^x, within 2 ulp; results below the normal range are zero.
SINTER_DEVICE float fast_exp2(float x) {
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

/// Two neighbouring elements in one register.
template <bool kPairs, class T>
SINTER_DEVICE u32 load_pair(const T* p) {
  if constexpr (kPairs) return *reinterpret_cast<const u32*>(p);
  return static_cast<u32>(p[0].bits) | static_cast<u32>(p[1].bits) << 16;
}
/// Stores two neighbouring results at `to`.
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

/// Statics only.
template <class Shape>
struct AttentionSums {
  typedef AttentionProblem<Shape> Problem;
  static constexpr bool kHasMask = MaskTile<Shape>::kHasMask;
  static constexpr float kLarge = 1e6f;  // of what replaces a score, in base 2
  /// Of rows of 8 bits: products with keys count elements / kKeyUnit. Weights have scales times
  /// ScaledRow's kUnit, so sums of values are too large by kValuesOver.
  typedef WidenedWord<typename Shape::T, typename Shape::Key> Word;
  static constexpr float kKeyUnit = Word::kUnit,
                         kValuesOver = ScaledRow<typename Shape::Key>::kUnit / Word::kUnit;

  /// A score in parts of the soft cap: tanh(cap_scale * score), off by 2^-19. What is behind it,
  /// the scale's places, multiplies by the cap.
  SINTER_DEVICE static float capped(const Problem& p, float score) {
    return short_one_plus_hyperbolic_tangent(score * p.cap_scale) - 1.0f;
  }
  /// The factor that turns s into base 2, once its maximum is known: one multiply-add an element.
  SINTER_DEVICE static bool scaled_late(const Problem& p) {
    if (kHasMask && (p.fill > kLarge || p.scale < 1e-6f || p.scale > 1e6f)) return false;
    return !MaskTile<Shape>::kAdds && p.scale > 0;
  }
  /// What replaces a score, in the scores' unit. A large one that rounded when it is scaled would
  /// be far from itself: a power of two does not.
  SINTER_DEVICE static float fill_of(const Problem& p) {
    if (!kHasMask || !scaled_late(p) || p.fill == -infinity()) return p.fill;
    return p.fill < -kLarge ? -0x1p100f : p.fill / unit(p);
  }
  SINTER_DEVICE static float unit(const Problem& p) {
    return scaled_late(p) ? p.scale * kLog2E : 1.0f;
  }
  /// What is subtracted in base 2: as long as every score is -inf there is nothing to subtract.
  SINTER_DEVICE static float base_of(float maximum, float unit) {
    return maximum == -infinity() ? 0.0f : maximum * unit;
  }

  /// What sums relative to `before` shrink by where they become relative to `base`: exactly 1 where
  /// the maximum stays, whatever else it was a maximum over. So the product is not fused into the
  /// subtraction, which would leave what `base` was rounded by.
  SINTER_DEVICE static float shrink_of(float before, float unit, float base) {
#ifdef __CUDACC__
    return fast_exp2(__fmul_rn(before, unit) - base);
#else
    return fast_exp2(before * unit - base);
#endif
  }

  /// What makes results of the sums of a row's; `drop`: the row's are zero.
  SINTER_DEVICE static float inverse_of(const Problem& p, float total, bool& drop) {
    drop = Shape::kGuard == 1 && total != total;
    // Only scores of -inf leave a sum of zero: 0 / 0 = NaN, or zero if guarded. A sum over no keys
    // is zero.
    if (Shape::kGuard != 0 && total == 0) return 1;
    const float inverse = p.keys > 0 ? divide(1.0f, total) : 0.0f;
    if constexpr (Shape::kRoundsResult || Shape::kEightBit) return inverse * p.y_factor;
    return inverse;
  }

  /// Adds up those of kParts parts of what put() of the rows wrote that are `present`. The block's
  /// threads share out pairs of columns and give each, with the row's maximum and sum, to `use(row,
  /// column, low, high, maximum, sum)`.
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

  /// Writes two columns of a result.
  SINTER_DEVICE static void store_merged(const Problem& p, i32 row, i32 column, float low,
                                         float high, float total) {
    bool drop;
    const float inverse = inverse_of(p, total, drop);
    store_pair(p, p.y + p.result_at(p.first_row + row) + column, drop ? 0 : low * inverse,
               drop ? 0 : high * inverse);
  }
};
