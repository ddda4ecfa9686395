// SPDX-License-Identifier: Apache-2.0
// Sorts long rows by radix (radix.cuh): records are cleared, all digits are counted, then each byte
// of the keys takes a pass over the row, unless all keys have the same.
#pragma once

#include "sort.cuh"

template <class Shape>
struct RadixRows {
  typedef typename Shape::Element Element;
  typedef typename Shape::Key Key;
  // As many as 48 KiB hold.
  static constexpr int kThreads = 256, kEach = sizeof(Key) == 8 ? 12 : 16;
  static constexpr int kTile = kThreads * kEach;
  static constexpr int kPasses = sizeof(Element);

  SINTER_DEVICE static i64 tiles_of(const SortProblem& p) {
    return p.length > Shape::kMostMerged ? (p.length + kTile - 1) / kTile : 0;
  }
  SINTER_DEVICE static RadixMemory<kPasses> memory_of(const SortProblem& p, u64* words) {
    return {words, p.rows, tiles_of(p)};
  }
  SINTER_DEVICE static void clear(const SortProblem& p, u64* words) { memory_of(p, words).clear(); }

  SINTER_DEVICE static const Element* row_at(const SortProblem& p, const Element* x, i64 row) {
    return x + row / p.inner * p.length * p.inner + row % p.inner;
  }
  SINTER_DEVICE static void count(const SortProblem& p, const Element* x, u64* words) {
    const i64 tiles = tiles_of(p), parts = least(tiles, kMostParts);
    if (tiles == 0) return;
    const i64 row = i64(blockIdx.x) / parts;
    if (row >= p.rows) return;
    __shared__ RadixCounts<Key, kPasses, kThreads, kEach> counts;
    const Element* const from = row_at(p, x, row);
    counts.count(p.length, i64(blockIdx.x) % parts, parts, memory_of(p, words).counts(row),
                 [&](i64 i) { return Shape::key(from[i * p.inner]); });
  }

  /// Entries between passes: all keys, then the index of each in its row.
  struct Entries {
    Key* keys;
    u32* indices;
    SINTER_DEVICE Entries(const SortProblem& p, void* memory, i64 row) {
      Key* const all = static_cast<Key*>(memory);
      keys = all + row * p.length;
      indices = reinterpret_cast<u32*>(all + p.rows * p.length) + row * p.length;
    }
  };

  /// The passes that are needed go from x to a, to b, to a .. and the last one to y.
  SINTER_DEVICE static void move(const SortProblem& p, const Element* x, void* a, void* b,
                                 u64* words, i64* y, int pass) {
    const i64 tiles = tiles_of(p);
    if (tiles == 0) return;
    const i64 row = i64(blockIdx.x) / tiles, tile = i64(blockIdx.x) % tiles;
    if (row >= p.rows) return;
    const u32* const counts = memory_of(p, words).counts(row);
    const Element* const elements = row_at(p, x, row);
    const u32 needed = passes_needed<kPasses>(counts, Shape::key(elements[0]), p.length);
    if ((needed >> pass & 1) == 0) return;
    const int earlier = __popc(needed & ((1u << pass) - 1));
    const bool is_first = earlier == 0, is_last = needed >> pass == 1;
    const Entries from(p, earlier % 2 == 0 ? b : a, row), to(p, earlier % 2 == 0 ? a : b, row);
    __shared__ RadixPass<Key, kThreads, kEach> memory;
    memory.move(
        p.length, tile, pass, counts + pass * kDigits, memory_of(p, words).records(row),
        [&](i64 i) { return is_first ? Shape::key(elements[i * p.inner]) : from.keys[i]; },
        [&](i64 i) { return is_first ? static_cast<u32>(i) : from.indices[i]; },
        [&](u32 place, Key key, u32 index) {
          if (!is_last) {
            to.keys[place] = key;
            to.indices[place] = index;
          } else if (place < p.count) {
            store_index(p, y, row, place, index);
          }
        });
  }
};
