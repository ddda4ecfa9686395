// SPDX-License-Identifier: Apache-2.0
// Values combined by index in cells of integers, by atomics. What a cell holds does not depend on
// the order in which values come: maxima and minima are greatest keys, and sums are integers. Sums
// of floats are multiples of a unit that follows from the greatest exponent of all values, and are
// rounded once. Cells whose values are so small that the sum might lose bits of a float32 are
// summed again, in a unit that follows from their own greatest exponent.
#pragma once

#include "order.cuh"
#include "reduce.cuh"
#include "vector.cuh"

constexpr int kCellThreads = 256, kCellEach = 4, kCellTile = kCellThreads * kCellEach;
constexpr int kHalfTop = 142;  // exponent of the greatest float16 as a float32's, biased

// ---- cells

template <bool kIs64>
struct WordOf {
  typedef u32 Type;
};
template <>
struct WordOf<true> {
  typedef u64 Type;
};

/// The value whose key_of() is `key`.
template <class T>
SINTER_DEVICE T value_of_key(typename WordOf<sizeof(T) == 8>::Type key) {
  constexpr bool kSigned = static_cast<T>(-1) < T(0);
  if constexpr (sizeof(T) == 8)
    return static_cast<T>(kSigned ? key ^ 0x8000000000000000ull : key);
  else
    return static_cast<T>(kSigned ? key ^ 0x80000000u : key);
}
template <>
SINTER_DEVICE float value_of_key<float>(u32 key) {
  return key == ~0u ? not_a_number() : float_of_key(key);
}
template <>
SINTER_DEVICE double value_of_key<double>(u64 key) {
  if (key == ~0ull) return static_cast<double>(not_a_number());
  const u64 bits = (key >> 63) != 0 ? key & 0x7fffffffffffffffull : ~key;
  double result;
  memcpy(&result, &bits, 8);
  return result;
}

/// NaN is above all others, for minima as well.
template <class Sum, bool kLeast>
struct ExtremeCells {
  typedef typename WordOf<sizeof(Sum) == 8>::Type Word;
  static constexpr bool kFloats = false, kTops = false, kReads = true;
  SINTER_DEVICE static Word encode(Sum x) {
    const Word key = key_of(x);
    return kLeast && x == x ? ~key : key;
  }
  SINTER_DEVICE static Sum decode(Word word) {
    const bool is_nan = static_cast<Sum>(0.5f) != Sum(0) && word == static_cast<Word>(~Word(0));
    return value_of_key<Sum>(kLeast && !is_nan ? static_cast<Word>(~word) : word);
  }
  SINTER_DEVICE static Word meet(Word a, Word b) { return a > b ? a : b; }
  /// `known`: what the cell held. Most values are no new maximum.
  SINTER_DEVICE static void add(Word* cell, Word known, Word word) {
    if (word > known) atomicMax(cell, word);
  }
  SINTER_DEVICE static void add_shared(Word* cell, Word word) { add(cell, *cell, word); }
};

/// Integers modulo the size of the word.
template <class Sum>
struct IntegerCells {
  typedef typename WordOf<sizeof(Sum) == 8>::Type Word;
  static constexpr bool kFloats = false, kTops = false, kReads = false;
  SINTER_DEVICE static Word encode(Sum x) { return static_cast<Word>(x); }
  SINTER_DEVICE static Sum decode(Word word) { return static_cast<Sum>(word); }
  SINTER_DEVICE static Word meet(Word a, Word b) { return a + b; }
  SINTER_DEVICE static void add(Word* cell, Word, Word word) {
    if (word != 0) atomicAdd(cell, word);
  }
  /// Shared memory adds words of 32 bits; the upper half is rarely concerned.
  SINTER_DEVICE static void add_shared(Word* cell, Word word) {
    if constexpr (sizeof(Word) == 8) {
      u32* halves = reinterpret_cast<u32*>(cell);
      const u32 low = static_cast<u32>(word);
      const u32 before = atomicAdd(&halves[0], low);
      const u32 high = static_cast<u32>(word >> 32) + (before + low < before ? 1 : 0);
      if (high != 0) atomicAdd(&halves[1], high);
    } else {
      add(cell, 0, word);
    }
  }
};

/// `kHalf`: values are of float16, whose exponents are known to fit the word.
template <bool kHalf>
struct FloatCells {
  typedef u64 Word;
  static constexpr bool kFloats = true, kTops = !kHalf;
};

// ---- floats as integers

// A top is the greatest biased exponent, or has flags of what is not finite. Before it is known,
// the word has flags and counts values that were rounded to the unit of all.
constexpr u32 kPlusInfinity = 256, kMinusInfinity = 512, kNotNumber = 1024, kNotFinite = 1792;
constexpr u32 kAgain = 2048;  // the cell is summed again
constexpr int kRoundedAt = 12, kErrorBits = 22;
// Counting stops there, or a thread's count behind: 20 bits hold it.
constexpr u32 kMostRounded = 1u << 19;

SINTER_DEVICE u32 top_of(float x) {
  const u32 bits = bits_of(x), exponent = bits >> 23 & 255u;
  if (exponent < 255) return exponent;
  if ((bits & 0x7fffffu) != 0) return kNotNumber;
  return (bits >> 31) != 0 ? kMinusInfinity : kPlusInfinity;
}

/// Bits of a value, so that `count` of them and the data have a sum of 63 bits with its sign.
SINTER_DEVICE int bits_of_values(i64 count) {
  int bits = 62;
  for (u64 rest = static_cast<u64>(count) + 1; rest != 0; rest >>= 1) --bits;
  return bits;
}
/// Whether x is rounded in units in which numbers with exponent `top` have `bits` bits.
SINTER_DEVICE bool is_rounded(float x, u32 own, u32 top, int bits) {
  const int exponent = own > 0 ? static_cast<int>(own) : 1;
  return static_cast<int>(top) - exponent > bits - 24 && x != 0;
}
/// x in units in which numbers with exponent `top` have `bits` bits, rounded to nearest. A finite x
/// whose exponent is at most `top`.
SINTER_DEVICE u64 fixed_point(float x, int top, int bits) {
  const u32 code = bits_of(x);
  const int biased = static_cast<int>(code >> 23 & 255u), exponent = biased > 0 ? biased : 1;
  const u32 mantissa = (code & 0x7fffffu) | (biased > 0 ? 0x800000u : 0u);
  const int shift = bits - 24 - ((top > 0 ? top : 1) - exponent);
  u64 size = 0;
  if (shift >= 0)
    size = static_cast<u64>(mantissa) << shift;
  else if (shift > -26)
    size = (mantissa + (1u << (-shift - 1))) >> -shift;
  return (code >> 31) != 0 ? u64(0) - size : size;
}
SINTER_DEVICE double value_of_fixed(u64 sum, int top, int bits) {
  const u64 unit = static_cast<u64>((top > 0 ? top : 1) - 126 - bits + 1023) << 52;
  double scale;
  memcpy(&scale, &unit, 8);
  return static_cast<double>(static_cast<i64>(sum)) * scale;
}
template <class T>
SINTER_DEVICE T rounded(double x) {
  return narrow<T>(sizeof(T) < 4 ? convert_to_odd(x) : static_cast<float>(x));
}

// ---- kernels

template <class Storage, class Sums, class CellKind, class IndexType, int kRowWidth, bool kIsFilled,
          bool kIndexedElements>
struct CellShape {
  typedef Storage T;
  typedef Sums Sum;
  typedef CellKind Cells;
  typedef typename CellKind::Word Word;
  typedef IndexType Index;
  static constexpr int kWidth = kRowWidth;  // 0: not known
  static constexpr bool kFilled = kIsFilled, kByElement = kIndexedElements;
};

/// Values [count, width] with an index each, or one for each row; results [rows, width].
struct CellProblem {
  i64 rows, width, count;
};

/// A tile's values: calls before(k, i, e) for all of a thread's, which loads, and then(k, i, row,
/// e) afterwards, so that loads do not wait for atomics. What is read once leaves the L2 to cells.
/// i: element of the values, `row`: its row in them, e: element of the result.
template <class Shape, class Before, class Then>
SINTER_DEVICE void for_values(const CellProblem& p, const typename Shape::Index* index, i64 tile,
                              const Before& before, const Then& then) {
  const i64 width = Shape::kWidth > 0 ? Shape::kWidth : p.width, all = p.count * width;
  i64 rows[kCellEach], elements[kCellEach];
  typename Shape::Index to[kCellEach];
  const i64 first = tile * kCellTile + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kCellEach; ++k) {
    const i64 i = first + k * kCellThreads;
    rows[k] = Shape::kWidth > 0
                  ? i / width
                  : static_cast<i64>(quotient(static_cast<u64>(i), static_cast<u64>(width)));
    to[k] = i >= all ? 0 : Shape::kByElement ? load_once(index + i) : index[rows[k]];
  }
#pragma unroll
  for (int k = 0; k < kCellEach; ++k) {
    const i64 i = first + k * kCellThreads;
    elements[k] = i < all && has_index(to[k], p.rows)
                      ? wrap_index(to[k], p.rows) * width + (i - rows[k] * width)
                      : -1;
    if (elements[k] >= 0) before(k, i, elements[k]);
  }
#pragma unroll
  for (int k = 0; k < kCellEach; ++k)
    if (elements[k] >= 0) then(k, first + k * kCellThreads, rows[k], elements[k]);
}

/// `common`: the greatest exponent of all values, and whether cells are summed again.
template <class Shape>
SINTER_DEVICE void begin_cells(const CellProblem& p, const typename Shape::T* data,
                               typename Shape::Word* cells, u32* tops, u32* common) {
  if (Shape::Cells::kTops && blockIdx.x == 0 && threadIdx.x < 2) common[threadIdx.x] = 0;
#pragma unroll
  for (int k = 0; k < kCellEach; ++k) {
    const i64 e = i64(blockIdx.x) * kCellTile + k * kCellThreads + threadIdx.x;
    if (e >= p.rows * p.width) continue;
    const typename Shape::Sum x = widen(data[Shape::kFilled ? 0 : e]);
    if constexpr (Shape::Cells::kFloats) {
      cells[e] = 0;
      tops[e] = top_of(x) & kNotFinite;
    } else {
      cells[e] = Shape::Cells::encode(x);
    }
  }
}

/// The greatest exponent of what is finite: blocks of the values, and behind them of the data.
template <class Shape>
SINTER_DEVICE void find_top(const CellProblem& p, const typename Shape::T* data,
                            const typename Shape::T* values, u32* common) {
  typedef typename Shape::T T;
  constexpr int kVector = 16 / sizeof(T);
  constexpr i64 kTile = i64(kCellTile) * kVector;
  const i64 of_values = p.count * p.width, tiles = (of_values + kTile - 1) / kTile;
  const bool is_data = blockIdx.x >= tiles;
  const T* from = is_data ? data : values;
  const i64 all = !is_data ? of_values : Shape::kFilled ? 1 : p.rows * p.width;
  const i64 tile = blockIdx.x - (is_data ? tiles : 0);
  u32 top = 0;
  const auto take = [&](T x) {
    const u32 own = top_of(widen(x));
    if (own < kPlusInfinity && own > top) top = own;
  };
#pragma unroll
  for (int k = 0; k < kCellEach; ++k) {
    const i64 at = tile * kTile + i64(k * kCellThreads + threadIdx.x) * kVector;
    if (at + kVector <= all) {
      const auto x = load<kVector>(from + at);
#pragma unroll
      for (int j = 0; j < kVector; ++j) take(x.v[j]);
    } else {
      for (i64 e = at; e < all; ++e) take(from[e]);
    }
  }
  top = reduce_lanes<Max, 32>(top);
  if (threadIdx.x % 32 == 0 && top > *static_cast<volatile u32*>(common)) atomicMax(common, top);
}

template <class Shape>
SINTER_DEVICE void add_values(const CellProblem& p, const typename Shape::T* values,
                              const typename Shape::Index* index, typename Shape::Word* cells,
                              u32* tops, const u32* common) {
  typename Shape::Sum x[kCellEach];
  if constexpr (Shape::Cells::kFloats) {
    const int bits = bits_of_values(p.count);
    const u32 top = Shape::Cells::kTops ? common[0] : static_cast<u32>(kHalfTop);
    for_values<Shape>(
        p, index, blockIdx.x, [&](int k, i64 i, i64) { x[k] = widen(load_once(values + i)); },
        [&](int k, i64, i64, i64 e) {
          const u32 own = top_of(x[k]);
          if (own >= kPlusInfinity) {
            atomicOr(&tops[e], own);
            return;
          }
          if (Shape::Cells::kTops && is_rounded(x[k], own, top, bits) &&
              *static_cast<volatile u32*>(&tops[e]) >> kRoundedAt < kMostRounded)
            atomicAdd(&tops[e], 1u << kRoundedAt);
          const u64 size = fixed_point(x[k], static_cast<int>(top), bits);
          if (size != 0) atomicAdd(&cells[e], size);
        });
  } else {
    typename Shape::Word known[kCellEach];
    for_values<Shape>(
        p, index, blockIdx.x,
        [&](int k, i64 i, i64 e) {
          x[k] = widen(load_once(values + i));
          // What is read may be old, and then less.
          known[k] =
              Shape::Cells::kReads ? *static_cast<volatile typename Shape::Word*>(&cells[e]) : 0;
        },
        [&](int k, i64, i64, i64 e) {
          Shape::Cells::add(&cells[e], known[k], Shape::Cells::encode(x[k]));
        });
  }
}

template <class Shape>
SINTER_DEVICE void finish_cells(const CellProblem& p, const typename Shape::T* data,
                                typename Shape::Word* cells, u32* tops, u32* common,
                                typename Shape::T* y) {
  typedef typename Shape::T T;
  const int bits = bits_of_values(p.count);
#pragma unroll
  for (int k = 0; k < kCellEach; ++k) {
    const i64 e = i64(blockIdx.x) * kCellTile + k * kCellThreads + threadIdx.x;
    if (e >= p.rows * p.width) continue;
    if constexpr (Shape::Cells::kFloats) {
      const T own = data[Shape::kFilled ? 0 : e];
      const float x = widen(own);
      const u32 flags = tops[e] & kNotFinite;
      u32 rounded_values = tops[e] >> kRoundedAt;
      if (flags != 0) {
        const float infinity = float_of_key(0xff800000u);
        y[e] = narrow<T>(flags == kPlusInfinity    ? infinity
                         : flags == kMinusInfinity ? -infinity
                                                   : not_a_number());
        continue;
      }
      // Nothing came: the data stay as they are, also where they are -0.
      if (cells[e] == 0 && rounded_values == 0) {
        y[e] = own;
        continue;
      }
      const u32 top = Shape::Cells::kTops ? common[0] : static_cast<u32>(kHalfTop);
      const u64 sum = cells[e] + fixed_point(x, static_cast<int>(top), bits);
      if constexpr (Shape::Cells::kTops) {
        // Each that is rounded is wrong by half a unit at most.
        if (is_rounded(x, top_of(x), top, bits)) ++rounded_values;
        const u64 size = (sum >> 63) != 0 ? u64(0) - sum : sum;
        if (rounded_values >= kMostRounded || size < static_cast<u64>(rounded_values)
                                                         << kErrorBits) {
          cells[e] = 0;
          tops[e] = kAgain | top_of(x);
          common[1] = 1;
          continue;
        }
      }
      y[e] = rounded<T>(value_of_fixed(sum, static_cast<int>(top), bits));
    } else {
      y[e] = narrow<T>(Shape::Cells::decode(cells[e]));
    }
  }
}

// ---- cells that are summed again: few blocks, which end at once where there are none

template <class Shape>
SINTER_DEVICE void raise_tops_again(const CellProblem& p, const typename Shape::T* values,
                                    const typename Shape::Index* index, u32* tops,
                                    const u32* common) {
  if (common[1] == 0) return;
  u32 now[kCellEach], by[kCellEach];
  for (i64 tile = blockIdx.x; tile * kCellTile < p.count * p.width; tile += gridDim.x)
    for_values<Shape>(
        p, index, tile,
        [&](int k, i64 i, i64 e) {
          by[k] = kAgain | top_of(widen(values[i]));
          now[k] = *static_cast<volatile u32*>(&tops[e]);
        },
        [&](int k, i64, i64, i64 e) {
          if ((now[k] & kAgain) != 0 && by[k] > now[k]) atomicMax(&tops[e], by[k]);
        });
}
template <class Shape>
SINTER_DEVICE void add_values_again(const CellProblem& p, const typename Shape::T* values,
                                    const typename Shape::Index* index, typename Shape::Word* cells,
                                    const u32* tops, const u32* common) {
  if (common[1] == 0) return;
  const int bits = bits_of_values(p.count);
  float x[kCellEach];
  u32 top[kCellEach];
  for (i64 tile = blockIdx.x; tile * kCellTile < p.count * p.width; tile += gridDim.x)
    for_values<Shape>(
        p, index, tile,
        [&](int k, i64 i, i64 e) {
          x[k] = widen(values[i]);
          top[k] = tops[e];
        },
        [&](int k, i64, i64, i64 e) {
          if ((top[k] & kAgain) == 0) return;
          const u64 size = fixed_point(x[k], static_cast<int>(top[k] & 255u), bits);
          if (size != 0) atomicAdd(&cells[e], size);
        });
}
template <class Shape>
SINTER_DEVICE void finish_cells_again(const CellProblem& p, const typename Shape::T* data,
                                      const typename Shape::Word* cells, const u32* tops,
                                      const u32* common, typename Shape::T* y) {
  if (common[1] == 0) return;
  const int bits = bits_of_values(p.count);
  const i64 step = i64(gridDim.x) * kCellThreads;
  for (i64 e = i64(blockIdx.x) * kCellThreads + threadIdx.x; e < p.rows * p.width; e += step) {
    if ((tops[e] & kAgain) == 0) continue;
    const int top = static_cast<int>(tops[e] & 255u);
    const u64 own = fixed_point(widen(data[Shape::kFilled ? 0 : e]), top, bits);
    y[e] = rounded<typename Shape::T>(value_of_fixed(cells[e] + own, top, bits));
  }
}

// ---- tables in shared memory: one for a block, whose threads add to it as they come

template <class Shape, int kElements, int kThreads>
SINTER_DEVICE void fill_cell_table(const CellProblem& p, const typename Shape::T* values,
                                   const typename Shape::Index* index, i64 blocks,
                                   typename Shape::Word* parts) {
  typedef typename Shape::Word Word;
  __shared__ Word table[kElements];
  if (blockIdx.x >= blocks) return;
  for (int e = threadIdx.x; e < kElements; e += kThreads) table[e] = 0;  // the least key, and sum
  __syncthreads();
  const i64 all = p.count * Shape::kWidth, step = blocks * kThreads * kCellEach;
  for (i64 i = i64(blockIdx.x) * kThreads * kCellEach + threadIdx.x; i < all; i += step) {
    typename Shape::Index to[kCellEach];
    typename Shape::Sum x[kCellEach];
#pragma unroll
    for (int k = 0; k < kCellEach; ++k) {
      const i64 at = i + k * kThreads;
      to[k] = at < all ? index[at / Shape::kWidth] : static_cast<typename Shape::Index>(p.rows);
      x[k] = at < all ? widen(values[at]) : typename Shape::Sum(0);
    }
#pragma unroll
    for (int k = 0; k < kCellEach; ++k) {
      if (!has_index(to[k], p.rows)) continue;
      const i64 e = wrap_index(to[k], p.rows) * Shape::kWidth + (i + k * kThreads) % Shape::kWidth;
      Shape::Cells::add_shared(&table[e], Shape::Cells::encode(x[k]));
    }
  }
  __syncthreads();
  for (int e = threadIdx.x; e < kElements; e += kThreads)
    parts[i64(blockIdx.x) * kElements + e] = table[e];
}

/// kMeetingParts threads of an element each take every kMeetingParts-th part.
constexpr int kMeetingColumns = 32, kMeetingParts = 8;
template <class Shape, int kElements>
SINTER_DEVICE void join_cell_tables(const typename Shape::T* data,
                                    const typename Shape::Word* parts, i64 blocks,
                                    typename Shape::T* y) {
  typedef typename Shape::Word Word;
  __shared__ Word met[kMeetingParts * kMeetingColumns];
  const int column = threadIdx.x % kMeetingColumns, own = threadIdx.x / kMeetingColumns;
  const int e = blockIdx.x * kMeetingColumns + column;
  Word word = 0;
  if (e < kElements)
#pragma unroll 8
    for (i64 k = own; k < blocks; k += kMeetingParts)
      word = Shape::Cells::meet(word, parts[k * kElements + e]);
  met[threadIdx.x] = word;
  __syncthreads();
  if (own > 0 || e >= kElements) return;
  for (int k = 1; k < kMeetingParts; ++k)
    word = Shape::Cells::meet(word, met[k * kMeetingColumns + column]);
  word = Shape::Cells::meet(word, Shape::Cells::encode(widen(data[Shape::kFilled ? 0 : e])));
  y[e] = narrow<typename Shape::T>(Shape::Cells::decode(word));
}

// ---- values that replace: the last one stays

/// Blocks of the result copy the data; those behind them clear the winners that are asked for.
template <class Shape>
SINTER_DEVICE void copy_and_clear(const CellProblem& p, const typename Shape::T* data,
                                  const typename Shape::Index* index, i32* winners,
                                  typename Shape::T* y) {
  typedef typename Shape::T T;
  constexpr int kVector = 16 / sizeof(T);
  const i64 all = p.rows * p.width, vectors = (all + kVector - 1) / kVector;
  const i64 copying = (vectors + kCellTile - 1) / kCellTile;
  if (blockIdx.x >= copying) {
    for_values<Shape>(
        p, index, blockIdx.x - copying, [](int, i64, i64) {},
        [&](int, i64, i64, i64 e) { winners[e] = -1; });
    return;
  }
  Vec<T, kVector> v[kCellEach];
#pragma unroll
  for (int k = 0; k < kCellEach; ++k) {
    const i64 at = (i64(blockIdx.x) * kCellTile + k * kCellThreads + threadIdx.x) * kVector;
    if (Shape::kFilled || at + kVector > all) continue;
    v[k] = load<kVector>(data + at);
  }
#pragma unroll
  for (int k = 0; k < kCellEach; ++k) {
    const i64 at = (i64(blockIdx.x) * kCellTile + k * kCellThreads + threadIdx.x) * kVector;
    if (!Shape::kFilled && at + kVector <= all) {
      store(y + at, v[k]);
      continue;
    }
    for (i64 e = at; e < at + kVector && e < all; ++e) y[e] = data[Shape::kFilled ? 0 : e];
  }
}
template <class Shape>
SINTER_DEVICE void find_winners(const CellProblem& p, const typename Shape::Index* index,
                                i32* winners) {
  for_values<Shape>(
      p, index, blockIdx.x, [](int, i64, i64) {},
      [&](int, i64, i64 row, i64 e) { atomicMax(&winners[e], static_cast<i32>(row)); });
}
template <class Shape>
SINTER_DEVICE void place_winners(const CellProblem& p, const typename Shape::T* values,
                                 const typename Shape::Index* index, const i32* winners,
                                 typename Shape::T* y) {
  typename Shape::T x[kCellEach];
  i32 winner[kCellEach];
  for_values<Shape>(
      p, index, blockIdx.x,
      [&](int k, i64 i, i64 e) {
        x[k] = values[i];
        winner[k] = winners[e];
      },
      [&](int k, i64, i64 row, i64 e) {
        if (winner[k] == static_cast<i32>(row)) y[e] = x[k];
      });
}
