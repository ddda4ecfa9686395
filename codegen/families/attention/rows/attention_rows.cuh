// SPDX-License-Identifier: Apache-2.0
// The rows of a warp: queries, scores, maxima, sums and results.
#pragma once

#include "attention_scaled_rows.cuh"
#include "attention_sums.cuh"
#include "cluster.cuh"
#include "mma.cuh"

/// Starts a copy of rows [first, first + kRows) of `count`, kWidth elements each; rows from `count`
/// on become zeros. `row_of` maps them to rows in memory.
template <int kRows, int kWidth, int kPitch, int kVector, int kThreads, class T, class RowOf>
SINTER_DEVICE void copy_rows(T* shared, const T* from, i64 stride, i32 first, i32 count, int thread,
                             const RowOf& row_of) {
  constexpr int kAcross = kWidth / kVector, kCount = kRows * kAcross;
#pragma unroll
  for (int begin = 0; begin < kCount; begin += kThreads) {
    const int i = begin + thread;
    if (kCount % kThreads != 0 && i >= kCount) break;
    const int row = i / kAcross, column = i % kAcross * kVector;
    const bool valid = first + row < count;
    const T* source = from + (valid ? row_of(first + row) : 0) * stride + column;
    T* to = shared + row * kPitch + column;
    if constexpr (kVector > 1)
      cp_async<kVector* static_cast<int>(sizeof(T))>(to, source, valid);
    else
      *to = valid ? *source : T{0};
  }
}

/// A warp copies a row of kWidth elements, kVector at a time.
template <int kWidth, int kVector, class T>
SINTER_DEVICE void put_row(T* to, const T* row, int lane) {
#pragma unroll
  for (int first = 0; first < kWidth; first += 32 * kVector) {
    const int column = first + lane * kVector;
    if (column >= kWidth) break;
    if constexpr (kVector * sizeof(T) == 16) {
      *reinterpret_cast<uint4*>(to + column) = *reinterpret_cast<const uint4*>(row + column);
    } else {
#pragma unroll
      for (int c = 0; c < kVector; ++c) to[column + c] = row[column + c];
    }
  }
}

/// A warp's rows in registers. With g = lane / 4 and t = lane % 4 * 2, a lane has rows g and g + 8
/// of each 16, and columns t and t + 1 of each 8: see mma_16x8x16(). For 8-bit rows a word has
/// four consecutive elements: a lane has columns 2 t to 2 t + 3 of each 16. Pairs of q are then
/// those of widen_bytes(); until finish(), y[2 i] has the even columns and y[2 i + 1] the odd
/// ones.
template <class Shape>
struct AttentionRows : AttentionSums<Shape> {
  typedef AttentionSums<Shape> Sums;
  typedef typename Shape::T T;
  typedef typename Shape::Key Key;
  typedef typename Shape::Result Result;
  typedef AttentionProblem<Shape> Problem;
  static constexpr int kRowTiles = Shape::kRowTiles, kKeyTiles = Shape::kKeyTiles,
                       kOutTiles = Shape::kOutTiles, kSteps = Shape::kSteps;
  using Sums::scaled_late, Sums::fill_of, Sums::unit, Sums::base_of, Sums::inverse_of,
      Sums::with_sink;
  typedef float Scores[kRowTiles][kKeyTiles][4];
  typedef float Shrink[kRowTiles][2];

  u32 q[kRowTiles][kSteps][4];
  float y[kRowTiles][kOutTiles][4];              // accumulators of PV
  float most[kRowTiles][2], sum[kRowTiles][2];   // sum: over this lane's columns
  i32 row0;                                      // first row of the warp
  i32 ends[Shape::kLimited ? kRowTiles : 1][2];  // end of keys, by limits
  int g, t;

  /// The first of the two result columns that this lane has in tile j.
  SINTER_DEVICE int column_of(int j) const {
    return Shape::kScaled ? j / 2 * 16 + t * 2 + j % 2 * 2 : j * 8 + t;
  }
  SINTER_DEVICE i32 row_of(int tile, int half) const { return row0 + tile * 16 + half * 8 + g; }

  SINTER_DEVICE void clear(i32 first, int lane) {
    row0 = first;
    g = lane / 4;
    t = lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        most[r][h] = -infinity();
        sum[r][h] = 0;
      }
#pragma unroll
      for (int j = 0; j < kOutTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) y[r][j][e] = 0;
    }
  }

  SINTER_DEVICE void load_ends(const Problem& p) {
    if constexpr (Shape::kLimited)
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int h = 0; h < 2; ++h) ends[r][h] = p.end_of_row(row_of(r, h));
  }

  SINTER_DEVICE void load_queries(const Problem& p) {
    load_ends(p);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        // Rows past the last duplicate it and are not stored.
        const i32 row = row_of(r, h);
        const T* source = p.q + p.query_at(row < p.rows ? row : p.rows - 1) + t;
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          if constexpr (Shape::kScaled) {
            const u32 first = load_pair<Shape::kPairs>(source + s * 16 + t),
                      second = load_pair<Shape::kPairs>(source + s * 16 + t + 2);
            constexpr bool kNeighbours = WidenedWord<T, Key>::kNeighbours;
            q[r][s][h] = kNeighbours ? first : (first & 0xffff) | second << 16;
            q[r][s][h + 2] = kNeighbours ? second : first >> 16 | (second & 0xffff0000u);
            continue;
          }
          q[r][s][h] = load_columns<Shape>(source, s * 16, t);
          q[r][s][h + 2] =
              s * 16 + 8 < Shape::kHead ? load_columns<Shape>(source, s * 16 + 8, t) : 0;
        }
      }
    }
  }

  /// s = q k' for a tile of keys in shared memory.
  SINTER_DEVICE void scores(Scores& s, const Key* keys, int lane) const {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[r][j][e] = 0;
    if constexpr (Shape::kScaled) return scores_of_bytes(s, keys, lane);
    const Key* at = keys + (lane / 16 * 8 + lane % 8) * Shape::kKeyPitch + lane / 8 % 2 * 8;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < kKeyTiles; j += 2) {
        u32 b[4];
        load_matrix_x4(b, at + j * 8 * Shape::kKeyPitch + step * 16);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          mma_16x8x16<T>(s[r][j], q[r][step], b[0], b[1]);
          mma_16x8x16<T>(s[r][j + 1], q[r][step], b[2], b[3]);
        }
      }
    }
  }

  /// The same for 8-bit rows, before scaling; two steps of 16 elements at a time.
  SINTER_DEVICE void scores_of_bytes(Scores& s, const Key* keys, int lane) const {
    const Key* at = keys + (lane / 16 * 8 + lane % 8) * Shape::kKeyPitch;
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      const bool both = step + 1 < kSteps;
#pragma unroll
      for (int j = 0; j < kKeyTiles; j += 2) {
        u32 words[4];
        load_matrix_x4(words,
                       at + j * 8 * Shape::kKeyPitch + (step + (both ? lane / 8 % 2 : 0)) * 16);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (i % 2 != 0 && !both) continue;
          u32 first, second;
          widen_bytes<T, Key>(words[i], first, second);
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r)
            mma_16x8x16<T>(s[r][j + i / 2], q[r][step + i % 2 < kSteps ? step + i % 2 : 0], first,
                           second);
        }
      }
    }
  }

  /// Multiplies scores, or weights, by `unit` and the scales of the tile's rows.
  SINTER_DEVICE void scale_keys(Scores& s, const float* scales, float unit) const {
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j) {
      const float factors[2] = {scales[j * 8 + t] * unit, scales[j * 8 + t + 1] * unit};
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[r][j][e] *= factors[e % 2];
    }
  }

  SINTER_DEVICE void load_mask(const Problem& p, MaskTile<Shape>& mask_tile, i32 key0) const {
    mask_tile.load(p, key0, t, [&](int tile, int half) { return row_of(tile, half); });
  }

  /// The minimum over this lane's rows of the end of their keys.
  SINTER_DEVICE i32 least_end(const Problem& p) const {
    if constexpr (!Shape::kLimited) return p.keys;
    i32 least = p.keys;
#pragma unroll
    for (int r = 0; r < (Shape::kLimited ? kRowTiles : 1); ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h) least = ends[r][h] < least ? ends[r][h] : least;
    return least;
  }

  /// Applies the program of scores, scale and mask. Scores are then in base 2, except for a factor
  /// if the scale is applied late.
  SINTER_DEVICE void mask(const Problem& p, Scores& s, const MaskTile<Shape>& mask_tile,
                          i32 key0) const {
    if constexpr (Shape::Score::kMakes)
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            s[r][j][e] =
                p.score_of(s[r][j][e], row_of(r, e / 2), key0 + Shape::key_of(j, t) + e % 2);
    if (!scaled_late(p) || !mask_tile.lets_all_through()) {
      const float factor = scaled_late(p) ? 1.0f : p.scale * kLog2E, fill = fill_of(p);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            s[r][j][e] = mask_tile.apply(s[r][j][e] * factor, r * 2 + e / 2, j * 2 + e % 2, fill);
    }
    const bool whole = Shape::kWindow == 0 && key0 + Shape::kKeys <= least_end(p) &&
                       (!Shape::kCausal || key0 + Shape::kKeys - 1 <= row0 + p.diagonal);
    if (whole) return;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        i32 end = Shape::kLimited ? ends[Shape::kLimited ? r : 0][e / 2] : p.keys;
        if (Shape::kCausal) {
          const i32 seen = row_of(r, e / 2) + p.diagonal + 1;
          end = seen < end ? seen : end;
        }
        const i32 first = Shape::kWindow > 0 ? end - Shape::kWindow : 0;
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j) {
          const i32 key = key0 + Shape::key_of(j, t) + e % 2;
          if (key >= end || (Shape::kWindow > 0 && key < first)) s[r][j][e] = -infinity();
        }
      }
  }

  /// Turns scores into weights relative to the running maximum; `shrink` rescales earlier sums.
  SINTER_DEVICE void weigh(const Problem& p, Scores& s, Shrink& shrink) {
    const float factor = unit(p);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float maximum = most[r][h];
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j)
          maximum = fmaxf(maximum, fmaxf(s[r][j][h * 2], s[r][j][h * 2 + 1]));
        maximum = fmaxf(maximum, exchange(maximum, 1));
        maximum = fmaxf(maximum, exchange(maximum, 2));
        const float base = base_of(maximum, factor);
        shrink[r][h] = Sums::shrink_of(most[r][h], factor, base);
        const float weight_base = base - Shape::kWeightExponent;
        most[r][h] = maximum;
        sum[r][h] *= shrink[r][h];
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
          for (int e = h * 2; e < h * 2 + 2; ++e) {
            s[r][j][e] = fast_exp2(s[r][j][e] * factor - weight_base);
            sum[r][h] += s[r][j][e];
          }
      }
    }
  }
  SINTER_DEVICE void rescale(const Shrink& shrink) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int j = 0; j < kOutTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) y[r][j][e] *= shrink[r][e / 2];
  }

  /// Rounds the accumulators of QK' to the A operand of PV, for 16 keys.
  SINTER_DEVICE static void pack_weights(u32 (&weights)[4], const float (&s)[kKeyTiles][4],
                                         int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = s[step * 2 + i / 2] + i % 2 * 2;
      weights[i] = pack_pair<T>(pair[0], pair[1]);
    }
  }

  /// y += weights * values.
  SINTER_DEVICE void add_values(const Scores& s, const Key* values, int lane) {
    if constexpr (Shape::kScaled) return add_bytes(s, values, lane);
    const Key* at = values + (lane % 16) * Shape::kValuePitch + lane / 16 * 8;
#pragma unroll
    for (int step = 0; step < kKeyTiles / 2; ++step) {
      u32 weights[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) pack_weights(weights[r], s[r], step);
#pragma unroll
      for (int j = 0; j + 1 < kOutTiles; j += 2) {
        u32 b[4];
        load_matrix_x4_transposed(b, at + step * 16 * Shape::kValuePitch + j * 8);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          mma_16x8x16<T>(y[r][j], weights[r], b[0], b[1]);
          mma_16x8x16<T>(y[r][j + 1], weights[r], b[2], b[3]);
        }
      }
      if constexpr (kOutTiles % 2 != 0) {
        constexpr int j = kOutTiles - 1;
        u32 b[2];
        load_matrix_x2_transposed(b, values + (step * 16 + lane % 16) * Shape::kValuePitch + j * 8);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) mma_16x8x16<T>(y[r][j], weights[r], b[0], b[1]);
      }
    }
  }

  /// The same for 8-bit rows, whose scales are in the weights; two units of 16 columns at a time.
  SINTER_DEVICE void add_bytes(const Scores& s, const Key* values, int lane) {
    constexpr int kUnits = kOutTiles / 2;
#pragma unroll
    for (int step = 0; step < kKeyTiles / 2; ++step) {
      u32 weights[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) pack_weights(weights[r], s[r], step);
#pragma unroll
      for (int unit = 0; unit < kUnits; unit += 2) {
        const bool both = unit + 1 < kUnits;
        u32 words[4];
        load_matrix_x4_transposed(words, values + (step * 16 + lane % 16) * Shape::kValuePitch +
                                             (unit + (both ? lane / 16 : 0)) * 16);
#pragma unroll
        for (int i = 0; i < (both ? 2 : 1); ++i) {
          u32 even[2], odd[2];
#pragma unroll
          for (int half = 0; half < 2; ++half)
            widen_across<T, Key>(words[i * 2 + half], even[half], odd[half]);
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) {
            mma_16x8x16<T>(y[r][(unit + i) * 2], weights[r], even[0], even[1]);
            mma_16x8x16<T>(y[r][(unit + i) * 2 + 1], weights[r], odd[0], odd[1]);
          }
        }
      }
    }
  }

  /// After the last add_values(): moves the result's columns to those of column_of(), and scales
  /// sums like the values in y.
  SINTER_DEVICE void finish() {
    if constexpr (Shape::kScaled) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int h = 0; h < 2; ++h) sum[r][h] *= Sums::kValuesOver;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int j = 0; j < kOutTiles; j += 2)
#pragma unroll
          for (int h = 0; h < 4; h += 2) {
            const float second = y[r][j + 1][h];
            y[r][j + 1][h] = y[r][j][h + 1];
            y[r][j][h + 1] = second;
          }
    }
  }

  /// Writes the warp's partial results to `part`, for rows that exist; `part` has the block's rows.
  SINTER_DEVICE void put(const Problem& p, float* part) const {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float total = sum_of_row(sum[r][h]);
        const i32 row = row_of(r, h);
        if (row >= p.rows) continue;
        float* const to = part + (row - p.first_row) * Shape::kPartPitch;
#pragma unroll
        for (int j = 0; j < kOutTiles; ++j) {
          to[column_of(j)] = y[r][j][h * 2];
          to[column_of(j) + 1] = y[r][j][h * 2 + 1];
        }
        if (t != 0) continue;
        to[Shape::kValueHead] = most[r][h];
        to[Shape::kValueHead + 1] = total;
      }
    }
  }

  /// Sum over a row's columns, of which four lanes have parts.
  SINTER_DEVICE static float sum_of_row(float total) {
    total += exchange(total, 1);
    return total + exchange(total, 2);
  }

  SINTER_DEVICE void store(const Problem& p) const {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        bool drop;
        const i32 row = row_of(r, h);
        const float inverse =
            inverse_of(p, with_sink(p, row, most[r][h], sum_of_row(sum[r][h])), drop);
        if (row >= p.rows) continue;
        typename Shape::Result* to = p.y + p.result_at(row);
#pragma unroll
        for (int j = 0; j < kOutTiles; ++j) {
          const float low = y[r][j][h * 2] * inverse, high = y[r][j][h * 2 + 1] * inverse;
          store_columns(p, to, column_of(j), drop ? 0 : low, drop ? 0 : high);
        }
      }
    }
  }

  /// The same if rows of y are aligned to 8 elements. The four lanes of a row transpose their
  /// parts of four tiles, so that each lane stores a whole tile. Remaining tiles are stored in
  /// pairs.
  SINTER_DEVICE void store_tiles(const Problem& p) const {
    constexpr int kFours = kOutTiles / 4 * 4;
    const int own = t / 2;
    const auto swap = [](u32& kept, u32& given, bool upper, int distance) {
      const u32 got = exchange(upper ? kept : given, distance);
      (upper ? kept : given) = got;
    };
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        bool drop;
        const i32 row = row_of(r, h);
        const float inverse =
            inverse_of(p, with_sink(p, row, most[r][h], sum_of_row(sum[r][h])), drop);
#pragma unroll
        for (int j = kFours; j < kOutTiles; ++j) {
          const float low = y[r][j][h * 2] * inverse, high = y[r][j][h * 2 + 1] * inverse;
          if (row < p.rows)
            store_pair<Shape, true>(p, p.y + p.result_at(row) + t + j * 8, drop ? 0 : low,
                                    drop ? 0 : high);
        }
#pragma unroll
        for (int j = 0; j < kFours; j += 4) {
          u32 part[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float* pair = y[r][j + i] + h * 2;
            if constexpr (Shape::kRoundsResult)
              part[i] = RoundedPair<Result>::of(drop ? 0 : pair[0] * inverse,
                                                drop ? 0 : pair[1] * inverse, p.y_zero);
            else
              part[i] = drop ? 0 : pack_pair<T>(pair[0] * inverse, pair[1] * inverse);
          }
          if constexpr (Shape::kRoundsResult) {
            // Packs tiles 0 and 1, and 2 and 3, into a register each. Exchanges tiles with the lane
            // 2 away, then with the adjacent lane: each lane then has one tile of all four.
            u32 first = part[0] | part[1] << 16, second = part[2] | part[3] << 16, even, odd;
            swap(first, second, own / 2 != 0, 2);
            sort_halves(first, second, even, odd);
            swap(even, odd, own % 2 != 0, 1);
            uint2 tile;
            sort_halves(even, odd, tile.x, tile.y);
            if (row < p.rows)
              *reinterpret_cast<uint2*>(p.y + p.result_at(row) + (j + own) * 8) = tile;
            continue;
          }
          swap(part[0], part[1], own % 2 != 0, 1);
          swap(part[2], part[3], own % 2 != 0, 1);
          swap(part[0], part[2], own / 2 != 0, 2);
          swap(part[1], part[3], own / 2 != 0, 2);
          if (row < p.rows)
            *reinterpret_cast<uint4*>(p.y + p.result_at(row) + (j + own) * 8) =
                uint4{part[0], part[1], part[2], part[3]};
        }
      }
    }
  }
};
