// SPDX-License-Identifier: Apache-2.0
// Attention with swapped operands ("swap AB"): up to eight rows of a warp are the MMA's columns;
// keys and value columns are its 16 rows. The queries of one token that share a head's keys are so
// few; as 16 MMA rows, half of the MMAs and registers would be wasted.
#pragma once

#include "attention_scaled_rows.cuh"
#include "attention_sums.cuh"
#include "mma.cuh"

/// A warp's eight rows in registers. With g = lane / 4 and t = lane % 4 * 2, a lane has keys g and
/// g + 8 of each 16, and rows t and t + 1: see mma_16x8x16(). Of each 16 result columns it has
/// element_of(). 8-bit queries and keys are ordered as in AttentionRows. Key groups combine through
/// put().
template <class Shape>
struct SwappedRows : AttentionSums<Shape> {
  typedef AttentionSums<Shape> Sums;
  typedef typename Shape::T T;
  typedef typename Shape::Key Key;
  typedef AttentionProblem<Shape> Problem;
  using Sums::unit, Sums::base_of, Sums::scaled_late;
  static constexpr int kSteps = Shape::kSteps, kKeyTiles = Shape::kKeys / 16,
                       kOutTiles = Shape::kValueHead / 16;
  static_assert(Shape::kHead % 16 == 0 && Shape::kValueHead % 16 == 0, "whole tiles");
  static_assert(!Sums::kHasMask, "keys are left out by limits alone");
  static_assert(Shape::kKeyGroups > 1, "results are added up in shared memory");
  typedef float Scores[kKeyTiles][4];
  typedef float Shrink[2];

  u32 q[kSteps][2];
  float y[kOutTiles][4];  // accumulators of PV
  float most[2], sum[2];  // of two rows; sum: over this lane's keys
  i32 row0;               // first row of the warp
  i32 ends[2];            // end of keys, by limits
  int g, t;

  /// The result column of y[tile][half * 2] and y[tile][half * 2 + 1].
  SINTER_DEVICE int element_of(int tile, int half) const {
    return tile * 16 + (Shape::kScaled ? g * 2 + half : g + half * 8);
  }

  SINTER_DEVICE void clear(i32 first, int lane) {
    row0 = first;
    g = lane / 4;
    t = lane % 4 * 2;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      most[c] = -infinity();
      sum[c] = 0;
    }
#pragma unroll
    for (int j = 0; j < kOutTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) y[j][e] = 0;
  }

  SINTER_DEVICE void load_queries(const Problem& p) {
#pragma unroll
    for (int c = 0; c < 2; ++c) ends[c] = p.end_of_row(row0 + t + c);
    // Rows past the last duplicate it and are not stored.
    const i32 row = row0 + g;
    const T* const source = p.q + p.query_at(row < p.rows ? row : p.rows - 1) + t;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      if constexpr (Shape::kScaled) {
        const u32 first = load_pair<Shape::kPairs>(source + s * 16 + t),
                  second = load_pair<Shape::kPairs>(source + s * 16 + t + 2);
        q[s][0] = WidenedWord<T, Key>::kNeighbours ? first : (first & 0xffff) | second << 16;
        q[s][1] = WidenedWord<T, Key>::kNeighbours ? second : first >> 16 | (second & 0xffff0000u);
      } else {
        q[s][0] = load_pair<Shape::kPairs>(source + s * 16);
        q[s][1] = load_pair<Shape::kPairs>(source + s * 16 + 8);
      }
    }
  }

  SINTER_DEVICE void load_mask(const Problem&, MaskTile<Shape>&, i32) const {}

  /// s = k q' for a tile of keys in shared memory; for 8 bits before scaling.
  SINTER_DEVICE void scores(Scores& s, const Key* keys, int lane) const {
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[j][e] = 0;
    const Key* const at = keys + (lane / 16 * 8 + lane % 8) * Shape::kKeyPitch;
    const int unit = lane / 8 % 2;
    if constexpr (Shape::kScaled) {  // two steps of 16 elements at a time
#pragma unroll
      for (int step = 0; step < kSteps; step += 2) {
        const bool both = step + 1 < kSteps;
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j) {
          u32 words[4];
          load_matrix_x4(words, at + j * 16 * Shape::kKeyPitch + (step + (both ? unit : 0)) * 16);
#pragma unroll
          for (int i = 0; i < (both ? 2 : 1); ++i) {
            u32 a[4];
            widen_bytes<T, Key>(words[i], a[0], a[2]);
            widen_bytes<T, Key>(words[i + 2], a[1], a[3]);
            mma_16x8x16<T>(s[j], a, q[step + i][0], q[step + i][1]);
          }
        }
      }
    } else {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j) {
          u32 b[4];
          load_matrix_x4(b, at + j * 16 * Shape::kKeyPitch + step * 16 + unit * 8);
          const u32 a[4] = {b[0], b[2], b[1], b[3]};
          mma_16x8x16<T>(s[j], a, q[step][0], q[step][1]);
        }
    }
  }

  /// Multiplies scores, or weights, by `unit` and the scales of the tile's rows.
  SINTER_DEVICE void scale_keys(Scores& s, const float* scales, float unit) const {
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float factor = scales[j * 16 + half * 8 + g] * unit;
        s[j][half * 2] *= factor;
        s[j][half * 2 + 1] *= factor;
      }
  }

  /// Applies the program of scores, the scale unless it is applied late, and masks keys that a row
  /// does not see.
  SINTER_DEVICE void mask(const Problem& p, Scores& s, const MaskTile<Shape>&, i32 key0) const {
    if constexpr (Shape::Score::kMakes)
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s[j][e] = p.score_of(s[j][e], row0 + t + e % 2, key0 + j * 16 + e / 2 * 8 + g);
    if (!scaled_late(p)) {
      const float factor = p.scale * kLog2E;
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[j][e] *= factor;
    }
    i32 end[2];
    bool whole = Shape::kWindow == 0;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      end[c] = ends[c];
      if (Shape::kCausal) {
        const i32 seen = row0 + t + c + p.diagonal + 1;
        end[c] = seen < end[c] ? seen : end[c];
      }
      whole = whole && key0 + Shape::kKeys <= end[c];
    }
    if (whole) return;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const i32 first = Shape::kWindow > 0 ? end[c] - Shape::kWindow : 0;
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const i32 key = key0 + j * 16 + half * 8 + g;
          if (key >= end[c] || (Shape::kWindow > 0 && key < first))
            s[j][half * 2 + c] = -infinity();
        }
    }
  }

  /// Turns scores into weights relative to the running maximum; `shrink` rescales earlier sums.
  SINTER_DEVICE void weigh(const Problem& p, Scores& s, Shrink& shrink) {
    const float factor = unit(p);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float maximum = most[c];
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j) maximum = fmaxf(maximum, fmaxf(s[j][c], s[j][c + 2]));
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2)
        maximum = fmaxf(maximum, exchange(maximum, distance));
      const float base = base_of(maximum, factor);
      shrink[c] = Sums::shrink_of(most[c], factor, base);
      most[c] = maximum;
      sum[c] *= shrink[c];
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
        for (int e = c; e < 4; e += 2) {
          s[j][e] = fast_exp2(s[j][e] * factor - base);
          sum[c] += s[j][e];
        }
    }
  }
  SINTER_DEVICE void rescale(const Shrink& shrink) {
#pragma unroll
    for (int j = 0; j < kOutTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) y[j][e] *= shrink[e % 2];
  }

  /// y += values' * weights; weights include the scales of 8-bit values.
  SINTER_DEVICE void add_values(const Scores& s, const Key* values, int lane) {
#pragma unroll
    for (int step = 0; step < kKeyTiles; ++step) {
      // Lanes have keys by rows; the MMA needs rows by keys.
      const u32 low = transpose_matrix(pack_pair<T>(s[step][0], s[step][1])),
                high = transpose_matrix(pack_pair<T>(s[step][2], s[step][3]));
      const Key* const at = values + (step * 16 + lane % 16) * Shape::kValuePitch;
      if constexpr (Shape::kScaled) {  // two units of 16 elements at a time
#pragma unroll
        for (int j = 0; j < kOutTiles; j += 2) {
          const bool both = j + 1 < kOutTiles;
          u32 words[4];
          load_matrix_x4_transposed(words, at + (j + (both ? lane / 16 : 0)) * 16);
#pragma unroll
          for (int i = 0; i < (both ? 2 : 1); ++i) {
            u32 a[4];
            widen_across<T, Key>(words[i * 2], a[0], a[1]);
            widen_across<T, Key>(words[i * 2 + 1], a[2], a[3]);
            mma_16x8x16<T>(y[j + i], a, low, high);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < kOutTiles; ++j) {
          u32 b[4];
          load_matrix_x4_transposed(b, at + j * 16 + lane / 16 * 8);
          const u32 a[4] = {b[0], b[2], b[1], b[3]};
          mma_16x8x16<T>(y[j], a, low, high);
        }
      }
    }
  }

  SINTER_DEVICE void finish() {
    if constexpr (Shape::kScaled)
#pragma unroll
      for (int c = 0; c < 2; ++c) sum[c] *= Sums::kValuesOver;
  }

  /// Writes the warp's partial results to `part`, for rows that exist; `part` has the block's rows.
  SINTER_DEVICE void put(const Problem& p, float* part) const {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float total = sum[c];
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) total += exchange(total, distance);
      const i32 row = row0 + t + c;
      if (row >= p.rows) continue;
      float* const to = part + (row - p.first_row) * Shape::kPartPitch;
#pragma unroll
      for (int j = 0; j < kOutTiles; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) to[element_of(j, half)] = y[j][half * 2 + c];
      if (g != 0) continue;
      to[Shape::kValueHead] = most[c];
      to[Shape::kValueHead + 1] = total;
    }
  }
};
