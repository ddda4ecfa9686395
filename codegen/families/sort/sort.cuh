// SPDX-License-Identifier: Apache-2.0
// Sorts the elements of rows: blocks sort pieces of a row in shared memory, then pairs of sorted
// runs are merged through global memory. Entries are pairs of key and index and thus all different:
// the result is unique, and the sort is stable.
#pragma once

#include "order.cuh"

/// A 32-bit key above a 32-bit index.
struct Entry32 {
  typedef u32 Key;
  u64 bits;
  SINTER_DEVICE static Entry32 of(u32 key, u32 index) {
    return Entry32{static_cast<u64>(key) << 32 | index};
  }
  SINTER_DEVICE static Entry32 last() { return Entry32{~0ull}; }  // after all valid entries
  SINTER_DEVICE u32 index() const { return static_cast<u32>(bits); }
  SINTER_DEVICE bool operator<(Entry32 other) const { return bits < other.bits; }
};
struct Entry64 {
  typedef u64 Key;
  u64 key, at;
  SINTER_DEVICE static Entry64 of(u64 key, u32 index) { return Entry64{key, index}; }
  SINTER_DEVICE static Entry64 last() { return Entry64{~0ull, ~0ull}; }
  SINTER_DEVICE u32 index() const { return static_cast<u32>(at); }
  SINTER_DEVICE bool operator<(Entry64 other) const {
    return key != other.key ? key < other.key : at < other.at;
  }
};

/// T: storage type of elements; Entry: depends on the key size. kThreads adjacent threads sort
/// kPiece elements, a power of two; a block has kPieces pieces.
template <class T, class EntryType, bool kIsDescending, int kPieceElements, int kPieceThreads,
          int kBlockPieces>
struct SortShape {
  typedef T Element;
  typedef EntryType Entry;
  static constexpr bool kDescending = kIsDescending;
  static constexpr int kPiece = kPieceElements, kThreads = kPieceThreads, kPieces = kBlockPieces;
};

/// Rows of `length` elements, `inner` rows interleaved: element e of row r is at (r / inner *
/// length + e) * inner + r % inner. The output has the indices of the first `count` sorted
/// elements, in the same layout with `count` elements a row.
struct SortProblem {
  i64 rows, length, inner, count;
};
SINTER_DEVICE i64 least(i64 a, i64 b) { return a < b ? a : b; }

/// Entries of a row's runs in scratch memory, which are adjacent, each at most `count` long.
template <class Shape>
SINTER_DEVICE i64 run_pitch(const SortProblem& p) {
  const i64 pieces = (p.length + Shape::kPiece - 1) / Shape::kPiece;
  return pieces * least(Shape::kPiece, p.count);
}

SINTER_DEVICE void store_index(const SortProblem& p, i64* y, i64 row, i64 at, u32 index) {
  y[(row / p.inner * p.count + at) * p.inner + row % p.inner] = index;
}

/// Sorts every piece of every row. A row of one piece is then done; otherwise the first `count`
/// elements of each piece go to `runs`.
template <class Shape>
SINTER_DEVICE void sort_pieces(const SortProblem& p, const typename Shape::Element* x,
                               typename Shape::Entry* runs, i64* y) {
  typedef typename Shape::Entry Entry;
  __shared__ Entry all[Shape::kPieces * Shape::kPiece];
  const int thread = threadIdx.x % Shape::kThreads;
  Entry* entries = all + threadIdx.x / Shape::kThreads * Shape::kPiece;
  const i64 pieces = (p.length + Shape::kPiece - 1) / Shape::kPiece;
  // A grid for the largest sizes has excess blocks.
  if (pieces == 0) return;
  const i64 piece = i64(blockIdx.x) * Shape::kPieces + threadIdx.x / Shape::kThreads;
  const i64 row = piece / pieces, first = piece % pieces * Shape::kPiece;
  const i64 here = row < p.rows ? least(Shape::kPiece, p.length - first) : 0;
  const typename Shape::Element* from =
      x + (row / p.inner * p.length + first) * p.inner + row % p.inner;
  for (int i = thread; i < Shape::kPiece; i += Shape::kThreads) {
    Entry entry = Entry::last();
    if (i < here) {
      const typename Entry::Key key = key_of(from[i * p.inner]);
      entry = Entry::of(Shape::kDescending ? ~key : key, static_cast<u32>(first + i));
    }
    entries[i] = entry;
  }
  // Bitonic sort: merges alternating ascending and descending runs into runs of `size`
  // elements.
#pragma unroll 1
  for (int size = 2; size <= Shape::kPiece; size *= 2) {
#pragma unroll 1
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = thread; pair < Shape::kPiece / 2; pair += Shape::kThreads) {
        const int low = 2 * pair - (pair & (distance - 1)), high = low + distance;
        const Entry a = entries[low], b = entries[high];
        if ((b < a) == ((low & size) == 0)) {
          entries[low] = b;
          entries[high] = a;
        }
      }
    }
  }
  __syncthreads();
  const i64 kept = least(p.count, here);
  for (i64 i = thread; i < kept; i += Shape::kThreads) {
    if (pieces == 1)
      store_index(p, y, row, i, entries[i].index());
    else
      runs[row * run_pitch<Shape>(p) + first / Shape::kPiece * least(Shape::kPiece, p.count) + i] =
          entries[i];
  }
}

/// Merges pairs of adjacent runs, each of `run` elements of the row before truncation to `count`.
/// The last merge writes indices. A thread computes kEach elements of the result, a block of
/// kMergeThreads threads a tile.
constexpr int kMergeThreads = 256, kMergeEach = 4;
template <class Shape>
SINTER_DEVICE void merge_runs(const SortProblem& p, const typename Shape::Entry* from,
                              typename Shape::Entry* to, i64* y, i64 run) {
  typedef typename Shape::Entry Entry;
  constexpr i64 kTile = kMergeThreads * kMergeEach;
  const i64 stored = least(run, p.count), merged = least(2 * run, p.count);
  const i64 pairs = (p.length + 2 * run - 1) / (2 * run), tiles = (merged + kTile - 1) / kTile;
  if (p.length <= run || tiles == 0) return;
  const i64 row = i64(blockIdx.x) / (pairs * tiles), pair = i64(blockIdx.x) / tiles % pairs;
  const i64 first = i64(blockIdx.x) % tiles * kTile + threadIdx.x * kMergeEach;
  const i64 begin = pair * 2 * run, pitch = run_pitch<Shape>(p);
  const i64 a_count = least(stored, p.length - begin);
  const i64 b_rest = p.length - begin - run, b_count = b_rest > 0 ? least(stored, b_rest) : 0;
  const i64 last = least(least(first + kMergeEach, a_count + b_count), merged);
  if (row >= p.rows || first >= last) return;
  const Entry* a = from + row * pitch + pair * 2 * stored;
  const Entry* b = a + stored;
  // Binary search: how many of the result's first `first` elements come from a.
  i64 low = first > b_count ? first - b_count : 0, high = least(first, a_count);
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (b[first - 1 - middle] < a[middle])
      high = middle;
    else
      low = middle + 1;
  }
  i64 i = low, j = first - low;
  for (i64 at = first; at < last; ++at) {
    const bool from_a = j >= b_count || (i < a_count && a[i] < b[j]);
    const Entry entry = from_a ? a[i++] : b[j++];
    if (2 * run >= p.length)
      store_index(p, y, row, at, entry.index());
    else
      to[row * pitch + pair * merged + at] = entry;
  }
}
