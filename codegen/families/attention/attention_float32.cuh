// SPDX-License-Identifier: Apache-2.0
// Attention of exact float32: fused multiply-adds of CUDA cores. A warp has kWarpRows rows, whose
// scores, maxima, sums and results are in its registers. Queries, a tile of keys and a tile of
// values are in shared memory, where a warp's weights become the left operand of its values.
#pragma once

#include "attention.cuh"
#include "vector.cuh"

template <class Shape>
struct Float32Rows {
  typedef AttentionSums<Shape> Sums;
  typedef AttentionProblem<Shape> Problem;
  // The threads of a warp are 4 along rows and 8 along columns. A thread's rows are 4 apart, its
  // keys 8; it has groups of 4 value columns, 32 apart.
  static constexpr int kThreadsM = 4, kThreadsN = 8, kAtOnce = 4;
  static constexpr int kRows = Shape::kWarpRows / kThreadsM, kScores = Shape::kKeys / kThreadsN,
                       kColumns = Shape::kValueHead / kThreadsN;
  static constexpr int kHalf = Shape::kKeys / 2;  // keys whose weights are in shared memory
  // Rows that threads read together begin 4 banks apart, or stored weights 8.
  static constexpr int kPitch = Shape::kHead + 4, kValuePitch = Shape::kValueHead,
                       kWeightPitch = kHalf + 8;
  static constexpr int kSharedBytes = ((Shape::kRows + Shape::kKeys) * kPitch +
                                       Shape::kKeys * kValuePitch + Shape::kRows * kWeightPitch) *
                                      4;
  static_assert(Shape::kKeyGroups == 1 && Shape::kValueHead % 32 == 0 && kHalf % 16 == 0,
                "whole loads");
  static_assert(!Shape::kLimited && !Shape::kPacked && !MaskTile<Shape>::kHasMask,
                "all rows see all keys, or those up to their own");

  float y[kRows][kColumns], scores[kRows][kScores];
  float most[kRows], sum[kRows];  // sum: over this thread's keys
  i32 row0;                       // of the thread
  int row, column;                // of the thread, among those of a warp

  SINTER_DEVICE void clear(i32 first) {
    // Lanes that differ in bit 0 read the same rows, and those that differ in bit 1 the same
    // columns: the two halves of a load of 512 bytes are then one transaction.
    const int lane = threadIdx.x % 32;
    row = lane / 2 % 2 + lane / 16 * 2;
    column = lane % 2 + lane / 4 % 4 * 2;
    row0 = first + row;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      most[i] = -infinity();
      sum[i] = 0;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) y[i][j] = 0;
    }
  }
  SINTER_DEVICE i32 row_of(int i) const { return row0 + i * kThreadsM; }

  /// `x` of the threads that have the same rows, combined.
  template <class Combine>
  SINTER_DEVICE static float combined(float x, const Combine& combine) {
    x = combine(x, exchange(x, 1));
    x = combine(x, exchange(x, 4));
    return combine(x, exchange(x, 8));
  }

  SINTER_DEVICE void multiply_keys(const float* queries, const float* keys) {
    const SharedFloats a(queries + row * kPitch), b(keys + column * kPitch);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kScores; ++j) scores[i][j] = 0;
#pragma unroll 1
    for (int k = 0; k < Shape::kHead; k += kAtOnce) {
      float right[kScores][kAtOnce];
#pragma unroll
      for (int j = 0; j < kScores; ++j) b.load(right[j], j * kThreadsN * kPitch + k);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        float left[kAtOnce];
        a.load(left, i * kThreadsM * kPitch + k);
#pragma unroll
        for (int e = 0; e < kAtOnce; ++e)
#pragma unroll
          for (int j = 0; j < kScores; ++j) scores[i][j] = fmaf(left[e], right[j][e], scores[i][j]);
      }
    }
  }

  /// Applies the program of scores, and hides keys. Scores are then in base 2, except for a factor
  /// if the scale is applied late.
  SINTER_DEVICE void mask(const Problem& p, i32 key0) {
    const float factor = Sums::scaled_late(p) ? 1.0f : p.scale * kLog2E;
    if (Shape::Score::kMakes || factor != 1.0f)
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kScores; ++j) {
          if constexpr (Shape::Score::kMakes)
            scores[i][j] = p.score_of(scores[i][j], row_of(i), key0 + column + j * kThreadsN);
          scores[i][j] *= factor;
        }
    if (key0 + Shape::kKeys <= p.keys &&
        (!Shape::kCausal || key0 + Shape::kKeys - 1 <= row0 + p.diagonal))
      return;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      i32 end = p.keys;
      if (Shape::kCausal) {
        const i32 seen = row_of(i) + p.diagonal + 1;
        end = seen < end ? seen : end;
      }
#pragma unroll
      for (int j = 0; j < kScores; ++j)
        if (key0 + column + j * kThreadsN >= end) scores[i][j] = -infinity();
    }
  }

  /// Turns scores into weights relative to the running maximum, and rescales earlier sums.
  SINTER_DEVICE void weigh(const Problem& p) {
    const float factor = Sums::unit(p);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float maximum = most[i];
#pragma unroll
      for (int j = 0; j < kScores; ++j) maximum = fmaxf(maximum, scores[i][j]);
      maximum = combined(maximum, [](float a, float b) { return fmaxf(a, b); });
      const float base = Sums::base_of(maximum, factor),
                  shrink = Sums::shrink_of(most[i], factor, base);
      most[i] = maximum;
      sum[i] *= shrink;
#pragma unroll
      for (int j = 0; j < kScores; ++j) {
        scores[i][j] = fast_exp2(scores[i][j] * factor - base);
        sum[i] += scores[i][j];
      }
#pragma unroll
      for (int j = 0; j < kColumns; ++j) y[i][j] *= shrink;
    }
  }

  /// y += weights * values; `weights` is the warp's memory.
  SINTER_DEVICE void add_values(float* weights, const float* values) {
    const SharedFloats a(weights + row * kWeightPitch), b(values + column * kAtOnce);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      __syncwarp();  // the warp has read its weights
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kScores / 2; ++j)
          weights[(row + i * kThreadsM) * kWeightPitch + column + j * kThreadsN] =
              scores[i][half * (kScores / 2) + j];
      __syncwarp();
#pragma unroll 1
      for (int k = 0; k < kHalf; k += kAtOnce) {
        float right[kAtOnce][kColumns];
#pragma unroll
        for (int e = 0; e < kAtOnce; ++e)
#pragma unroll
          for (int j = 0; j < kColumns; j += kAtOnce) {
            float some[kAtOnce];
            b.load(some, (half * kHalf + k + e) * kValuePitch + j * kThreadsN);
#pragma unroll
            for (int c = 0; c < kAtOnce; ++c) right[e][j + c] = some[c];
          }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          float left[kAtOnce];
          a.load(left, i * kThreadsM * kWeightPitch + k);
#pragma unroll
          for (int e = 0; e < kAtOnce; ++e)
#pragma unroll
            for (int j = 0; j < kColumns; ++j) y[i][j] = fmaf(left[e], right[e][j], y[i][j]);
        }
      }
    }
  }

  SINTER_DEVICE void finish(const Problem& p) {
    typedef typename Shape::Result Result;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float all = combined(sum[i], [](float a, float b) { return a + b; });
      if (row_of(i) >= p.rows) continue;
      bool drop;
      const float inverse = Sums::inverse_of(p, Sums::with_sink(p, row_of(i), most[i], all), drop);
      Result* const to = p.y + p.result_at(row_of(i)) + column * kAtOnce;
      constexpr int kStored = Shape::kRoundsResult ? 1 : Shape::kVector;
#pragma unroll
      for (int j = 0; j < kColumns; j += kStored) {
        Result* const at = to + j / kAtOnce * kAtOnce * kThreadsN + j % kAtOnce;
        if constexpr (Shape::kRoundsResult) {
          const float result = drop ? 0 : y[i][j] * inverse;
          *reinterpret_cast<u8*>(at) =
              static_cast<u8>(RoundedPair<Result>::of(result, result, p.y_zero));
        } else {
          Vec<float, kStored> some;
#pragma unroll
          for (int c = 0; c < kStored; ++c) some.v[c] = drop ? 0 : y[i][j + c] * inverse;
          store(at, some);
        }
      }
    }
  }
};

/// Rows [first_row, first_row + kRows) of one head, by one block. Values arrive while scores are
/// made, and the next keys while values are added.
template <class Shape>
SINTER_DEVICE void attend_float32(const AttentionProblem<Shape>& p) {
  typedef Float32Rows<Shape> Rows;
  if (p.first_row >= p.rows) return;
  SINTER_DYNAMIC_SHARED(shared);
  float* const queries = reinterpret_cast<float*>(shared);
  float* const keys = queries + Shape::kRows * Rows::kPitch;
  float* const values = keys + Shape::kKeys * Rows::kPitch;
  const int first = static_cast<int>(threadIdx.x) / 32 * Shape::kWarpRows;  // of the warp
  float* const weights = values + Shape::kKeys * Rows::kValuePitch + first * Rows::kWeightPitch;
  const auto itself = [](i32 row) { return row; };
  const auto copy_keys = [&](i32 key0) {
    copy_rows<Shape::kKeys, Shape::kHead, Rows::kPitch, Shape::kVector, Shape::kThreads>(
        keys, p.k, p.k_stride, key0, p.keys, static_cast<int>(threadIdx.x), itself);
  };
  Rows rows;
  rows.clear(p.first_row + first);
  const i32 end = end_of_keys(p);
  copy_rows<Shape::kRows, Shape::kHead, Rows::kPitch, Shape::kVector, Shape::kThreads>(
      queries, p.q, p.q_stride, p.first_row, p.rows, static_cast<int>(threadIdx.x), itself);
  if (end > 0) copy_keys(0);
  cp_async_commit();
#pragma unroll 1
  for (i32 key0 = 0; key0 < end; key0 += Shape::kKeys) {
    // Some row of the warp sees some key of the tile.
    const bool sees = !Shape::kCausal || key0 < p.first_row + first + Shape::kWarpRows + p.diagonal;
    cp_async_wait<0>();
    __syncthreads();  // the keys are there, the values before were read
    copy_rows<Shape::kKeys, Shape::kValueHead, Rows::kValuePitch, Shape::kVector, Shape::kThreads>(
        values, p.v, p.v_stride, key0, p.keys, static_cast<int>(threadIdx.x), itself);
    cp_async_commit();
    if (sees) rows.multiply_keys(queries + first * Rows::kPitch, keys);
    cp_async_wait<0>();
    __syncthreads();  // the values are there, the keys were read
    if (key0 + Shape::kKeys < end) copy_keys(key0 + Shape::kKeys);
    cp_async_commit();
    if (!sees) continue;
    rows.mask(p, key0);
    rows.weigh(p);
    rows.add_values(weights, values);
  }
  cp_async_wait<0>();
  rows.finish(p);
}
