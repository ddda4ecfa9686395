// SPDX-License-Identifier: Apache-2.0
// Compile-time parameters of an attention kernel (AttentionShape), and the problem of one head.
#pragma once

#include "attention_mask.cuh"

struct NoLimits {};
template <class T>
struct IsNoLimits {
  static constexpr bool kIs = false;
};
template <>
struct IsNoLimits<NoLimits> {
  static constexpr bool kIs = true;
};

/// Scores are products of queries and keys, scaled. A program of scores is a class with
/// `float operator()(float score, i32 row, i32 key)`. kReads: it reads memory. kSinks: `float
/// sink(i32 row)` is the score of one more key, whose value is zero.
struct NoScore {
  static constexpr bool kMakes = false, kReads = false, kSinks = false;
};
/// A finite score that stays finite when multiplied by log2(e).
SINTER_DEVICE float finite_in_base_2(float score) {
  constexpr float kLowest = -2.3e38f;
  return score < kLowest && score > -infinity() ? kLowest : score;
}

/// The keys before `limit`, of `keys`.
SINTER_DEVICE i32 keys_before(i64 limit, i32 keys) {
  return limit < 0 ? 0 : limit < keys ? static_cast<i32>(limit) : keys;
}

/// The compile-time parameters of a kernel. kRowWarps warps have kWarpRows rows each: a multiple of
/// 16, or 8, which are the MMA's columns (SwappedRows). They share tiles of kKeys keys. kKeyGroups
/// such groups take tiles round-robin and combine their results at the end. kVector: elements of
/// one copy of keys and values. kPairs: two adjacent elements of q and y are one access; rows are
/// aligned to both. kMaskRows, kMaskKeys: the mask depends on the row, on the key. kMaskPairs: two
/// adjacent keys of the mask are one access. kCausal: row r sees keys up to r + `diagonal`. kGuard:
/// weights that count as zero: 1: NaN; 2: all weights of rows whose scores are all -inf. Limits:
/// integer type of the rows' key counts, or NoLimits. kPacked: rows and keys belong to concatenated
/// sequences. Result: T, or an 8-bit type to which results are rounded after a scale. Key: type of
/// keys and values: T, or an 8-bit type with a scale for each row. kBlock: keys of a block of the
/// paged cache (a power of two; 0: contiguous). kGroup: rows of each token, which are heads that
/// share their keys. kWindow: a row sees only the last kWindow keys before its limit (0: all).
/// kLeastRows, kMostRows: row counts of the packed sequences that the kernel takes (kMostRows 0:
/// any). Score: the program of scores, or NoScore. kHeadColumns, kValueColumns: columns in memory
/// of heads that tiles pad to kHead and kValueHead.
template <class T_, class Mask_, int kHead_, int kValueHead_, int kRowWarps_, int kWarpRows_,
          int kKeyGroups_, int kKeys_, int kVector_, bool kPairs_, bool kMaskRows_, bool kMaskKeys_,
          bool kMaskPairs_, bool kCausal_, int kGuard_, class Limits_ = NoLimits,
          bool kPacked_ = false, class Result_ = T_, class Key_ = T_, int kBlock_ = 0,
          int kGroup_ = 1, int kWindow_ = 0, int kLeastRows_ = 0, int kMostRows_ = 0,
          class Score_ = NoScore, int kHeadColumns_ = kHead_, int kValueColumns_ = kValueHead_>
struct AttentionShape {
  typedef T_ T;
  typedef T_ Query;
  typedef Key_ Key;
  typedef Mask_ Mask;  // b8: true attends, false sets the score to `fill`; floats are added; NoMask
  typedef Limits_ Limits;
  typedef Result_ Result;
  static constexpr bool kRoundsResult = sizeof(Result) == 1;
  static constexpr int kHead = kHead_, kValueHead = kValueHead_, kRowWarps = kRowWarps_,
                       kWarpRows = kWarpRows_, kRowTiles = kWarpRows / 16, kKeyGroups = kKeyGroups_,
                       kKeys = kKeys_, kVector = kVector_;
  static constexpr bool kSwapped = kWarpRows == 8;
  static_assert(kSwapped || kWarpRows % 16 == 0, "whole tiles of products");
  static constexpr bool kPairs = kPairs_, kMaskRows = kMaskRows_, kMaskKeys = kMaskKeys_,
                        kMaskPairs = kMaskPairs_, kCausal = kCausal_,
                        kLimited = !IsNoLimits<Limits>::kIs, kPacked = kPacked_;
  static constexpr int kGuard = kGuard_, kBlock = kBlock_, kGroup = kGroup_, kWindow = kWindow_;
  static constexpr int kLeastRows = kLeastRows_, kMostRows = kMostRows_;
  typedef Score_ Score;
  static constexpr int kHeadColumns = kHeadColumns_, kValueColumns = kValueColumns_;
  static constexpr bool kPadded = kHeadColumns != kHead || kValueColumns != kValueHead;
  /// Another kernel, for sequences of fewer rows, clears the padding rows.
  static constexpr bool kClearsSpare = kPacked && kLeastRows == 0;
  static constexpr bool kPaged = kBlock > 0;
  /// Items whose rows see many keys go first (causal_item). With limits, later rows usually see
  /// more.
  static constexpr bool kLongFirst = kCausal || (kLimited && !kPacked);
  /// Items of long prompts also go first where blocks process several rounds: the short ones
  /// balance the load.
  static constexpr bool kLastFirst = kPaged && kRowWarps >= 4;
  // Without bounds it is one token of one sequence, whose limit is that of the keys.
  static_assert(!kPaged || (kPacked == kLimited && !kCausal), "sequences with limits");
  static_assert(kPaged || (kGroup == 1 && kWindow == 0), "of paged caches");
  static_assert(kHead % 8 == 0 && kValueHead % 8 == 0 && kKeys % 16 == 0, "whole matrices of 8x8");
  static constexpr bool kScaled = sizeof(Key) == 1;
  // 8-bit operands without scales: see EightBitShape.
  static constexpr bool kEightBit = false;
  static constexpr float kWeightExponent = 0;
  /// The key of a tile whose scores are column 8 j + t, t even; the next column is the next key.
  SINTER_DEVICE static constexpr int key_of(int j, int t) { return j * 8 + t; }
  static_assert(!kScaled || (kHead % 16 == 0 && kValueHead % 16 == 0), "whole units of 16 bytes");
  static_assert(!kScaled || !kPacked || kPaged, "packed keys are no cache");
  static_assert(kKeys <= 128, "a lane keeps its part of a bool mask in 32 bits");

  static constexpr int kSteps = (kHead + 15) / 16, kKeyTiles = kKeys / 8,
                       kOutTiles = kValueHead / 8, kThreads = kRowWarps * 32;
  // Row pitch is an odd number of 16-byte units: ldmatrix has no bank conflicts.
  static constexpr int kKeyPitch = kScaled ? (kSteps | 1) * 16 : (kSteps * 2 | 1) * 8,
                       kValuePitch = kScaled ? (kOutTiles / 2 | 1) * 16 : (kOutTiles | 1) * 8;
  // Scales of keys and of values follow both.
  static constexpr int kRowBytes = (kKeyPitch + kValuePitch) * static_cast<int>(sizeof(Key)),
                       kTileBytes = kKeys * (kRowBytes + (kScaled ? 8 : 0));
  static constexpr int kRows = kRowWarps * kWarpRows;  // of a block
  // The partial result of a group or block for each row: result, maximum, sum.
  static constexpr int kPartPitch = kValueHead + 4, kPartFloats = kRows * kPartPitch;
  static constexpr int kMergeBytes = kKeyGroups > 1 ? kKeyGroups* kPartFloats * 4 : 0;
  /// Offset of the blocks' partial results, with `ahead` tiles of keys and of values for each
  /// group.
  static constexpr int parts_at(int ahead) {
    return kKeyGroups * ahead * kTileBytes > kMergeBytes ? kKeyGroups * ahead * kTileBytes
                                                         : kMergeBytes;
  }
  /// Bytes of a Prologue's results: the queries, and one row of keys and of values.
  static constexpr int kPrologueBytes =
      (kRows * kHead + kHead + kValueHead) * 2 + (kScaled ? kHead + kValueHead + 16 : 0);
  /// Offset of the mbarrier that counts their arrival.
  static constexpr int arrived_at(int ahead, int splits) {
    return parts_at(ahead) + splits * kPartFloats * 4;
  }
  static constexpr int shared_bytes(int ahead, int splits) {
    return splits > 1 ? arrived_at(ahead, splits) + 16 : parts_at(ahead);
  }
};

/// Padding rows of packed sequences: rows `first`, first + step, .. of `count`. `front` of them
/// precede the `packed` rows of the sequences. Row 0 of the problem is row `begin`.
struct SpareRows {
  i32 begin, front, packed, first, count, step;
};

/// One head. Element (r, c) of an operand is data[r * stride + c], of the mask mask[r * mask_row +
/// c * mask_key]. Scores are scale * q k', with a program scale * score(score_scale * q k').
template <class Shape>
struct AttentionProblem {
  static constexpr int kValueHead = Shape::kValueHead;
  const typename Shape::Query* q;
  const typename Shape::Key *k, *v;
  typename Shape::Result* y;
  const typename Shape::Mask* mask;
  const typename Shape::Limits* limits;
  i64 q_stride, k_stride, v_stride, y_stride, mask_row, mask_key, limit_row;
  i32 rows, keys, first_row, diagonal;
  i32 batch[3];                          // the head's index in the first batch dimensions
  float scale, fill;                     // fill in base 2: multiplied by log2(e)
  float score_scale;                     // of q k', in front of a program of scores
  const float *key_scale, *value_scale;  // of rows, if Key has 8 bits; a stride apart
  i64 key_scale_stride, value_scale_stride;
  SpareRows spare;  // if sequences are packed
  // For a paged cache: the sequence's block table, the rows of the cache, and strides between rows
  // of one token. `keys` is then the capacity of the table.
  const i32* table;
  i32 sequence, cache_rows;
  i64 q_member, y_member;
  // For 8-bit results or operands: results are multiplied by y_factor before rounding; y_zero is
  // the zero point.
  float y_factor, y_zero;
  typename Shape::Score score;

  /// What the program of scores makes of q k'. Keys and rows that do not exist read others'
  /// operands.
  SINTER_DEVICE float score_of(float product, i32 row, i32 key) const {
    if constexpr (Shape::Score::kReads) {
      row = row < rows ? row : rows - 1;
      key = key < keys ? key : keys - 1;
    }
    return score(product * score_scale, row, key);
  }
  SINTER_DEVICE float sink_of(i32 row) const { return score.sink(row < rows ? row : rows - 1); }
  /// End of the keys that a row sees by its limit.
  SINTER_DEVICE i32 end_of_row(i32 row) const {
    if constexpr (Shape::kLimited)
      return keys_before(limits[(row < rows ? row : rows - 1) / Shape::kGroup * limit_row], keys);
    return keys;
  }
  /// Offset of row `row` of q and of y.
  SINTER_DEVICE i64 query_at(i32 row) const {
    if constexpr (Shape::kGroup == 1) return row * q_stride;
    return row / Shape::kGroup * q_stride + row % Shape::kGroup * q_member;
  }
  SINTER_DEVICE i64 result_at(i32 row) const {
    if constexpr (Shape::kGroup == 1) return row * y_stride;
    return row / Shape::kGroup * y_stride + row % Shape::kGroup * y_member;
  }
  /// The row of `key` in keys and values. Table entries are clamped, not trusted.
  SINTER_DEVICE i32 row_of_key(i32 key) const {
    if constexpr (!Shape::kPaged) return key;
    constexpr i32 kBlock = Shape::kPaged ? Shape::kBlock : 1;
    const u32 row = static_cast<u32>(table[key / kBlock]) * kBlock + key % kBlock;
    return row < static_cast<u32>(cache_rows) ? static_cast<i32>(row) : 0;
  }
  /// The same for the first key of a block, or of a part of one, which may be past the last key.
  SINTER_DEVICE i32 first_row_at(i32 key) const { return key < keys ? row_of_key(key) : 0; }
  /// A row of a block, counted from its first, clamped to a cache whose last block is partial.
  SINTER_DEVICE i32 row_in_cache(i32 row) const {
    return row < cache_rows - 1 ? row : cache_rows - 1;
  }
};
