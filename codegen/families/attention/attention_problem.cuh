// What a kernel of attention is compiled for (AttentionShape), and one head of what it is given.
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

/// Of `keys` keys those before `limit`.
SINTER_DEVICE i32 keys_before(i64 limit, i32 keys) {
  return limit < 0 ? 0 : limit < keys ? static_cast<i32>(limit) : keys;
}

/// The constants of a kernel.
/// kRowWarps warps hold kWarpRows rows each (8: as columns of products, SwappedRows; else a
/// multiple of 16) and share tiles of kKeys keys; kKeyGroups such groups take turns over the tiles
/// and add up at the end. kVector: elements of one copy of keys and values, and kPairs: whether two
/// neighbouring elements of q and y are one access; rows begin at multiples of them. kMaskRows,
/// kMaskKeys: whether the mask depends on the row, and on the key; kMaskPairs: whether two
/// neighbours of its keys are one access. kCausal: a row sees the keys up to its own number +
/// `diagonal`. kGuard: which weights count as zero: 1: those that are NaN; 2: those of rows of
/// which every score is -inf. Limits: the type of integers of which a row sees as many keys;
/// NoLimits. kPacked: rows and keys are those of one of several sequences that lie one behind the
/// other. Result: T, or a type of 8 bits, which results are rounded to behind a factor. Key: the
/// type of keys and values, T or one of 8 bits, whose rows have scales then. kBlock: keys of a
/// block where keys and values are a paged cache (a power of two; 0: they lie in order); kGroup:
/// rows that each token of such a sequence has, which are heads that share their keys; kWindow: the
/// last so many keys before its limit are what a row sees (0: all). kLeastRows, kMostRows: of the
/// packed sequences that the kernel takes (kMostRows 0: any). kCapped: scores have a soft cap.
template <class T_, class Mask_, int kHead_, int kValueHead_, int kRowWarps_, int kWarpRows_,
          int kKeyGroups_, int kKeys_, int kVector_, bool kPairs_, bool kMaskRows_, bool kMaskKeys_,
          bool kMaskPairs_, bool kCausal_, int kGuard_, class Limits_ = NoLimits,
          bool kPacked_ = false, class Result_ = T_, class Key_ = T_, int kBlock_ = 0,
          int kGroup_ = 1, int kWindow_ = 0, int kLeastRows_ = 0, int kMostRows_ = 0,
          bool kCapped_ = false>
struct AttentionShape {
  typedef T_ T;
  typedef T_ Query;
  typedef Key_ Key;
  typedef Mask_ Mask;  // b8: true attends, false scores `fill`; a float is added; NoMask
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
  static constexpr bool kCapped = kCapped_;
  /// Another kernel, of the sequences of fewer rows, clears what no sequence has.
  static constexpr bool kClearsSpare = kPacked && kLeastRows == 0;
  static constexpr bool kPaged = kBlock > 0;
  /// Items whose rows see many keys go first (causal_item). By limits later rows mostly see more.
  static constexpr bool kLongFirst = kCausal || (kLimited && !kPacked);
  /// So do those of a sequence's prompt, where blocks take items in turns: the short ones even out
  /// what the blocks have.
  static constexpr bool kLastFirst = kPaged && kRowWarps >= 4;
  static_assert(!kPaged || (kPacked && kLimited && !kCausal), "sequences with limits");
  static_assert(kPaged || (kGroup == 1 && kWindow == 0), "of paged caches");
  static_assert(kHead % 8 == 0 && kValueHead % 8 == 0 && kKeys % 16 == 0, "whole matrices of 8x8");
  static constexpr bool kScaled = sizeof(Key) == 1;
  // Of operands of 8 bits without scales: see EightBitShape.
  static constexpr bool kEightBit = false;
  static constexpr float kWeightExponent = 0;
  /// Which key of a tile column 8 j + t of scores is, t even; the next column is the next key.
  SINTER_DEVICE static constexpr int key_of(int j, int t) { return j * 8 + t; }
  static_assert(!kScaled || (kHead % 16 == 0 && kValueHead % 16 == 0), "whole units of 16 bytes");
  static_assert(!kScaled || !kPacked || kPaged, "packed keys are no cache");
  static_assert(kKeys <= 128, "a lane keeps its part of a bool mask in 32 bits");

  static constexpr int kSteps = (kHead + 15) / 16, kKeyTiles = kKeys / 8,
                       kOutTiles = kValueHead / 8, kThreads = kRowWarps * 32;
  // Rows of an odd number of 16-byte units: matrices are then read without bank conflicts.
  static constexpr int kKeyPitch = kScaled ? (kSteps | 1) * 16 : (kSteps * 2 | 1) * 8,
                       kValuePitch = kScaled ? (kOutTiles / 2 | 1) * 16 : (kOutTiles | 1) * 8;
  // Scales of keys and of values lie behind both.
  static constexpr int kRowBytes = (kKeyPitch + kValuePitch) * static_cast<int>(sizeof(Key)),
                       kTileBytes = kKeys * (kRowBytes + (kScaled ? 8 : 0));
  static constexpr int kRows = kRowWarps * kWarpRows;  // of a block
  // What a group, or a block, has of the rows when they add up: results, a maximum, a sum.
  static constexpr int kPartPitch = kValueHead + 4, kPartFloats = kRows * kPartPitch;
  static constexpr int kMergeBytes = kKeyGroups > 1 ? kKeyGroups* kPartFloats * 4 : 0;
  /// Where blocks put theirs, with `ahead` tiles of keys, and of values, to each group.
  static constexpr int parts_at(int ahead) {
    return kKeyGroups * ahead * kTileBytes > kMergeBytes ? kKeyGroups * ahead * kTileBytes
                                                         : kMergeBytes;
  }
  /// Of what a block makes itself: its queries, a row of keys and one of values (Prologue).
  static constexpr int kPrologueBytes =
      (kRows * kHead + kHead + kValueHead) * 2 + (kScaled ? kHead + kValueHead + 16 : 0);
  /// Where their arrival is counted.
  static constexpr int arrived_at(int ahead, int splits) {
    return parts_at(ahead) + splits * kPartFloats * 4;
  }
  static constexpr int shared_bytes(int ahead, int splits) {
    return splits > 1 ? arrived_at(ahead, splits) + 16 : parts_at(ahead);
  }
};

/// Rows of packed sequences that none of them has: number `first`, first + step, .. of `count`, of
/// which `front` lie in front of the sequences' `packed` rows. Row 0 of the problem is row `begin`.
struct SpareRows {
  i32 begin, front, packed, first, count, step;
};

/// One head. Element (r, c) of an operand is at data[r * its stride + c], of the mask at
/// mask[r * mask_row + c * mask_key]. Scores are scale * q k', or with a soft cap, which is scale
/// then, scale * tanh(cap_scale * q k').
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
  i32 batch[3];                          // the head's place in the first dimensions of the batch
  float scale, fill;                     // fill in base 2: times log2(e)
  float cap_scale;                       // what scores of a soft cap are multiplied by first
  const float *key_scale, *value_scale;  // of rows, if they have any; a stride apart
  i64 key_scale_stride, value_scale_stride;
  SpareRows spare;  // where sequences are packed
  // Of a paged cache: the sequence's block table, rows that the cache has; from one row of a token
  // to the next. `keys` is then how many the table has room for.
  const i32* table;
  i32 sequence, cache_rows;
  i64 q_member, y_member;
  // Where results, or operands, have 8 bits: results are times y_factor before they are rounded.
  // y_zero is what zero is.
  float y_factor, y_zero;

  /// The end of the keys that a row sees by its limit.
  SINTER_DEVICE i32 end_of_row(i32 row) const {
    if constexpr (Shape::kLimited)
      return keys_before(limits[(row < rows ? row : rows - 1) / Shape::kGroup * limit_row], keys);
    return keys;
  }
  /// Where row `row` of q and of y begins.
  SINTER_DEVICE i64 query_at(i32 row) const {
    if constexpr (Shape::kGroup == 1) return row * q_stride;
    return row / Shape::kGroup * q_stride + row % Shape::kGroup * q_member;
  }
  SINTER_DEVICE i64 result_at(i32 row) const {
    if constexpr (Shape::kGroup == 1) return row * y_stride;
    return row / Shape::kGroup * y_stride + row % Shape::kGroup * y_member;
  }
  /// The row of keys and values that key `key` is. What a table says is not trusted.
  SINTER_DEVICE i32 row_of_key(i32 key) const {
    if constexpr (!Shape::kPaged) return key;
    constexpr i32 kBlock = Shape::kPaged ? Shape::kBlock : 1;
    const u32 row = static_cast<u32>(table[key / kBlock]) * kBlock + key % kBlock;
    return row < static_cast<u32>(cache_rows) ? static_cast<i32>(row) : 0;
  }
  /// The same of the first key of a block, or of a part of one, which may lie behind the last key.
  SINTER_DEVICE i32 first_row_at(i32 key) const { return key < keys ? row_of_key(key) : 0; }
  /// A row of a block from its first on: in the cache, where that has no whole number of blocks.
  SINTER_DEVICE i32 row_in_cache(i32 row) const {
    return row < cache_rows - 1 ? row : cache_rows - 1;
  }
};
