// SPDX-License-Identifier: Apache-2.0
// Sorts the elements of rows: blocks sort pieces of a row in shared memory, then pairs of sorted
// runs are merged through global memory. Entries are pairs of key and index and thus all different:
// the result is unique, and the sort is stable. Longer rows: radix_rows.cuh.
#pragma once

#include "order.cuh"
#include "radix.cuh"

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
  /// That of lane `lane ^ mask`.
  SINTER_DEVICE Entry32 across(int mask) const { return Entry32{exchange(bits, mask)}; }
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
  SINTER_DEVICE Entry64 across(int mask) const {
    return Entry64{exchange(key, mask), exchange(at, mask)};
  }
};

/// T: storage type of elements; Entry: depends on the key size. kThreads adjacent threads sort
/// kPiece elements, a power of two, kEach at a time each; a block has kPieces pieces. kGroups > 0:
/// few elements are asked for, and kPieces is 1 (select_first). Rows of more than kMostMerged
/// elements are not sorted here.
template <class T, class EntryType, bool kIsDescending, int kPieceElements, int kPieceThreads,
          int kBlockPieces, int kSelectGroups, i64 kMostOfMerges>
struct SortShape {
  typedef T Element;
  typedef EntryType Entry;
  typedef typename Entry::Key Key;
  static constexpr i64 kMostMerged = kMostOfMerges;
  static constexpr bool kDescending = kIsDescending;
  static constexpr int kPiece = kPieceElements, kThreads = kPieceThreads, kPieces = kBlockPieces;
  static constexpr int kEach = kPiece / kThreads, kGroups = kSelectGroups;
  // One entry in eight is left out, so that threads that have eight neighbours each, or every
  // eighth entry, use different banks.
  static constexpr int kPlaces = kPiece + kPiece / 8;
  // A radix sort takes a pass for each byte of the elements, whatever their number: from 2,048 on
  // at most 8 passes of 14 instructions for each element and shared memory twice, where the bitonic
  // sort takes 66 steps of 8 and shared memory 24 times.
  static constexpr bool kRadix = kPiece >= 2048;
  /// Of as many bytes as the element.
  SINTER_DEVICE static Key key(T x) {
    const Key key = short_key_of(x);
    return kDescending ? ~key : key;
  }
};
SINTER_DEVICE int place_of(int entry) { return entry + entry / 8; }

/// Puts two entries in order, or in the opposite one.
template <class Entry>
SINTER_DEVICE void order_pair(Entry& a, Entry& b, bool ascending) {
  const bool swap = (b < a) == ascending;
  const Entry low = swap ? b : a;
  b = swap ? a : b;
  a = low;
}

/// The steps of a bitonic merge into runs of `size` entries over kSteps distances, the last of
/// which is `unit`: a thread has the 2^kSteps entries that these exchange in registers.
template <class Shape, int kSteps>
SINTER_DEVICE void merge_steps(typename Shape::Entry* entries, int thread, int size, int unit) {
  constexpr int kCount = 1 << kSteps;
#pragma unroll
  for (int g = 0; g < Shape::kEach / kCount; ++g) {
    const int group = thread + g * Shape::kThreads;
    const int base = ((group & ~(unit - 1)) << kSteps) + (group & (unit - 1));
    const bool ascending = (base & size) == 0;
    typename Shape::Entry own[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) own[j] = entries[place_of(base + j * unit)];
#pragma unroll
    for (int step = kCount / 2; step > 0; step /= 2) {
#pragma unroll
      for (int j = 0; j < kCount; ++j)
        if ((j & step) == 0) order_pair(own[j], own[j + step], ascending);
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) entries[place_of(base + j * unit)] = own[j];
  }
  __syncthreads();
}

/// Sorts runs of kEach neighbouring entries, of which every other ascends.
template <class Shape>
SINTER_DEVICE void sort_own(typename Shape::Entry* entries, int thread) {
  constexpr int kEach = Shape::kEach;
  typename Shape::Entry own[kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) own[j] = entries[place_of(thread * kEach + j)];
#pragma unroll
  for (int size = 2; size <= kEach; size *= 2) {
#pragma unroll
    for (int step = size / 2; step > 0; step /= 2) {
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        if ((j & step) == 0) order_pair(own[j], own[j + step], ((thread * kEach + j) & size) == 0);
    }
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) entries[place_of(thread * kEach + j)] = own[j];
  __syncthreads();
}

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

/// The first `kept` of a piece's entries, in order, without a sort of all: of the least entries of
/// kGroups groups, the one of rank `kept` is a bound of what is asked for, and few entries are not
/// above it. Calls keep(rank, entry). False: too many are not above it, and nothing was done.
template <class Shape, class Keep>
SINTER_DEVICE bool select_first(const typename Shape::Entry (&own)[Shape::kEach], i64 kept,
                                typename Shape::Entry* entries, const Keep& keep) {
  typedef typename Shape::Entry Entry;
  constexpr int kLanes = Shape::kThreads / Shape::kGroups;
  __shared__ Entry lowest[Shape::kGroups];
  __shared__ Entry bound;
  __shared__ int found;
  const int thread = threadIdx.x;
  Entry low = own[0];
#pragma unroll
  for (int j = 1; j < Shape::kEach; ++j) low = own[j] < low ? own[j] : low;
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    const Entry other = low.across(mask);
    low = other < low ? other : low;
  }
  if (thread % kLanes == 0) lowest[thread / kLanes] = low;
  if (thread == 0) {
    bound = Entry::last();
    found = 0;
  }
  __syncthreads();
  if (thread < Shape::kGroups) {
    const Entry mine = lowest[thread];
    int rank = 0;
#pragma unroll 8
    for (int g = 0; g < Shape::kGroups; ++g) rank += lowest[g] < mine ? 1 : 0;
    if (rank + 1 == kept && mine < Entry::last()) bound = mine;
  }
  __syncthreads();
  const Entry highest = bound;
#pragma unroll
  for (int j = 0; j < Shape::kEach; ++j) {
    if (highest < own[j] || !(own[j] < Entry::last())) continue;
    const int at = atomicAdd(&found, 1);
    if (at < Shape::kThreads) entries[at] = own[j];
  }
  __syncthreads();
  const int count = found;
  if (count > Shape::kThreads) return false;
  if (thread < count) {
    const Entry mine = entries[thread];
    int rank = 0;
    for (int i = 0; i < count; ++i) rank += entries[i] < mine ? 1 : 0;
    if (rank < kept) keep(rank, mine);
  }
  return true;
}

/// Calls keep(i, entry) for the first `kept` entries of a piece in order: `here` elements at
/// `from`, whose numbers in the row begin at `first`.
template <class Shape, class Keep>
SINTER_DEVICE void sort_piece(const SortProblem& p, const typename Shape::Element* from, i64 first,
                              i64 here, i64 kept, const Keep& keep) {
  typedef typename Shape::Entry Entry;
  __shared__ Entry all[Shape::kPieces * Shape::kPlaces];
  const int thread = threadIdx.x % Shape::kThreads;
  Entry* entries = all + threadIdx.x / Shape::kThreads * Shape::kPlaces;
  const auto entry_of = [&](int i) {
    return i < here ? Entry::of(Shape::key(from[i * p.inner]), static_cast<u32>(first + i))
                    : Entry::last();
  };
  if constexpr (Shape::kGroups > 0) {
    Entry own[Shape::kEach];
#pragma unroll
    for (int j = 0; j < Shape::kEach; ++j) own[j] = entry_of(thread + j * Shape::kThreads);
    if (select_first<Shape>(own, kept, entries, keep)) return;
  }
  for (int i = thread; i < Shape::kPiece; i += Shape::kThreads) entries[place_of(i)] = entry_of(i);
  // Bitonic sort: merges alternating ascending and descending runs into runs of `size` elements,
  // three distances at a time.
  __syncthreads();
  sort_own<Shape>(entries, thread);
#pragma unroll 1
  for (int size = 2 * Shape::kEach; size <= Shape::kPiece; size *= 2) {
    int steps = 0;  // that are left
    while (size >> steps > 1) ++steps;
    if (steps % 3 == 1) {
      steps -= 1;
      merge_steps<Shape, 1>(entries, thread, size, 1 << steps);
    } else if (steps % 3 == 2) {
      steps -= 2;
      merge_steps<Shape, 2>(entries, thread, size, 1 << steps);
    }
#pragma unroll 1
    for (; steps > 0; steps -= 3) merge_steps<Shape, 3>(entries, thread, size, 1 << (steps - 3));
  }
  for (i64 i = thread; i < kept; i += Shape::kThreads) keep(i, entries[place_of(int(i))]);
}

/// The same by radix; for a piece that is the block's only one.
template <class Shape, class Keep>
SINTER_DEVICE void sort_piece_by_radix(const SortProblem& p, const typename Shape::Element* from,
                                       i64 first, i64 here, i64 kept, const Keep& keep) {
  typedef typename Shape::Entry Entry;
  typedef typename Shape::Key Key;
  typedef BlockRadix<Key, Shape::kThreads, Shape::kEach> Radix;
  __shared__ union {
    Radix radix;
    Entry entries[Shape::kThreads];  // of select_first
  } memory;
  Key own[Shape::kEach];
#pragma unroll
  for (int k = 0; k < Shape::kEach; ++k) {
    const int e = Radix::Tile::element(k);
    own[k] = e < here ? Shape::key(from[e * p.inner]) : static_cast<Key>(~Key(0));
  }
  if constexpr (Shape::kGroups > 0) {
    Entry candidates[Shape::kEach];
#pragma unroll
    for (int k = 0; k < Shape::kEach; ++k) {
      const int e = Radix::Tile::element(k);
      candidates[k] = e < here ? Entry::of(own[k], static_cast<u32>(first + e)) : Entry::last();
    }
    if (select_first<Shape>(candidates, kept, memory.entries, keep)) return;
  }
  memory.radix.sort(own, static_cast<int>(here), sizeof(typename Shape::Element));
  for (int i = threadIdx.x; i < kept; i += Shape::kThreads)
    keep(i, Entry::of(memory.radix.keys[i], static_cast<u32>(first + memory.radix.positions[i])));
}

/// Sorts every piece of every row. A row of one piece is then done; otherwise the first `count`
/// elements of each piece go to `runs`.
template <class Shape>
SINTER_DEVICE void sort_pieces(const SortProblem& p, const typename Shape::Element* x,
                               typename Shape::Entry* runs, i64* y) {
  typedef typename Shape::Entry Entry;
  const i64 pieces = (p.length + Shape::kPiece - 1) / Shape::kPiece;
  // A grid for the largest sizes has excess blocks.
  if (pieces == 0 || p.length > Shape::kMostMerged) return;
  const i64 piece = i64(blockIdx.x) * Shape::kPieces + threadIdx.x / Shape::kThreads;
  const i64 row = piece / pieces, first = piece % pieces * Shape::kPiece;
  const i64 here = row < p.rows ? least(Shape::kPiece, p.length - first) : 0;
  const typename Shape::Element* from =
      x + (row / p.inner * p.length + first) * p.inner + row % p.inner;
  const i64 kept = least(p.count, here);
  const auto keep = [&](i64 i, Entry entry) {
    if (pieces == 1)
      store_index(p, y, row, i, entry.index());
    else
      runs[row * run_pitch<Shape>(p) + first / Shape::kPiece * least(Shape::kPiece, p.count) + i] =
          entry;
  };
  if constexpr (Shape::kRadix)
    sort_piece_by_radix<Shape>(p, from, first, here, kept, keep);
  else
    sort_piece<Shape>(p, from, first, here, kept, keep);
}

/// How many of the first `count` entries of two sorted runs together come from `a`; for one warp,
/// whose lanes divide what is left of the range by 32 at a time.
template <class Entry>
SINTER_DEVICE i64 find_split(const Entry* a, i64 a_count, const Entry* b, i64 b_count, i64 count) {
  i64 low = count > b_count ? count - b_count : 0, high = least(count, a_count);
  const int lane = threadIdx.x % 32;
  while (low < high) {
    const i64 step = (high - low + 31) / 32, at = low + (lane + 1) * step - 1;
    const bool behind = at >= high || b[count - 1 - at] < a[at];
    const u32 lanes = __ballot_sync(0xffffffffu, behind);
    if (lanes == 0) return high;
    const int first = __popc((lanes & (0u - lanes)) - 1);  // that lies behind the split
    high = least(high, low + (first + 1) * step - 1);
    low += first * step;
  }
  return low;
}

/// Merges pairs of adjacent runs, each of `run` elements of the row before truncation to `count`.
/// The last merge writes indices. A block of kMergeThreads threads computes a tile of the result in
/// shared memory, a thread kMergeEach elements of it.
constexpr int kMergeThreads = 256, kMergeEach = 4;
template <class Shape>
SINTER_DEVICE void merge_runs(const SortProblem& p, const typename Shape::Entry* from,
                              typename Shape::Entry* to, i64* y, i64 run) {
  typedef typename Shape::Entry Entry;
  constexpr int kTile = kMergeThreads * kMergeEach;
  __shared__ Entry entries[kTile];
  __shared__ i64 splits[2];
  const i64 stored = least(run, p.count), merged = least(2 * run, p.count);
  const i64 pairs = (p.length + 2 * run - 1) / (2 * run), tiles = (merged + kTile - 1) / kTile;
  if (p.length <= run || tiles == 0 || p.length > Shape::kMostMerged) return;
  const i64 row = i64(blockIdx.x) / (pairs * tiles), pair = i64(blockIdx.x) / tiles % pairs;
  const i64 first = i64(blockIdx.x) % tiles * kTile;
  const i64 begin = pair * 2 * run, pitch = run_pitch<Shape>(p);
  const i64 a_all = least(stored, p.length - begin);
  const i64 b_rest = p.length - begin - run, b_all = b_rest > 0 ? least(stored, b_rest) : 0;
  const i64 last = least(least(first + kTile, a_all + b_all), merged);
  if (row >= p.rows || first >= last) return;
  const Entry* a = from + row * pitch + pair * 2 * stored;
  const Entry* b = a + stored;
  if (threadIdx.x < 64) {
    const int end = threadIdx.x / 32;
    const i64 split = find_split(a, a_all, b, b_all, end == 0 ? first : last);
    if (threadIdx.x % 32 == 0) splits[end] = split;
  }
  __syncthreads();
  a += splits[0];
  b += first - splits[0];
  const int a_count = int(splits[1] - splits[0]), count = int(last - first);
  const int b_count = count - a_count;
  for (int i = threadIdx.x; i < count; i += kMergeThreads)
    entries[i] = i < a_count ? a[i] : b[i - a_count];
  __syncthreads();
  const Entry* right = entries + a_count;
  const int begins = threadIdx.x * kMergeEach;
  if (begins >= count) return;
  int low = begins > b_count ? begins - b_count : 0, high = begins < a_count ? begins : a_count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (right[begins - 1 - middle] < entries[middle])
      high = middle;
    else
      low = middle + 1;
  }
  int i = low, j = begins - low;
#pragma unroll
  for (int k = 0; k < kMergeEach; ++k) {
    const i64 at = first + begins + k;
    if (at >= last) return;
    const bool from_a = j >= b_count || (i < a_count && entries[i] < right[j]);
    const Entry entry = from_a ? entries[i++] : right[j++];
    if (2 * run >= p.length)
      store_index(p, y, row, at, entry.index());
    else
      to[row * pitch + pair * merged + at] = entry;
  }
}
