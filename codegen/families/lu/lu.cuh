// SPDX-License-Identifier: Apache-2.0
// LU factors of square matrices with partial pivoting; determinants and inverses.
//
// Here those that lie in a block's shared memory, and what the larger ones share with them. NaN
// counts as the largest pivot; where a pivot is zero nothing is subtracted, but NaN still reaches
// the rows below.
#pragma once

#include "lanes.cuh"
#include "order.cuh"

SINTER_DEVICE int least(int a, int b) { return a < b ? a : b; }

template <class C>
struct Pivot {
  C size, value;  // size: of the value; -1: none
  i32 row;
};
template <class C>
SINTER_DEVICE Pivot<C> pivot_at(i32 row, C value) {
  // NaN is as large as infinity.
  const C size = value != value ? static_cast<C>(infinity()) : value < C(0) ? -value : value;
  return {size, value, row};
}
/// The first of the largest.
template <class C>
SINTER_DEVICE Pivot<C> larger(Pivot<C> a, Pivot<C> b) {
  return b.size > a.size || (b.size == a.size && b.row < a.row) ? b : a;
}
/// Bits that order sizes, 0 for none. -0, whose size is -0, is a zero.
SINTER_DEVICE u64 size_bits(float size) {
  return size < 0 ? 0 : u64(bits_of(size + 0.0f) + 1) << 32;
}
SINTER_DEVICE u64 size_bits(double size) { return size < 0 ? 0 : bits_of(size + 0.0) + 1; }
/// Sizes meet 32 bits at a time, and the lane that has the largest tells the rest.
template <class C>
SINTER_DEVICE Pivot<C> largest_of_warp(Pivot<C> x) {
  const u64 bits = size_bits(x.size);
  const u32 high = static_cast<u32>(bits >> 32), low = static_cast<u32>(bits);
  bool is_largest = high == greatest_of_lanes(high);
  if (sizeof(C) > 4) is_largest = low == greatest_of_lanes(is_largest ? low : 0) && is_largest;
  const u32 row = static_cast<u32>(x.row);
  const u32 first = least_of_lanes(is_largest ? row : ~0u);
  const int lane = lowest_lane(__ballot_sync(0xffffffffu, is_largest && row == first));
  return {from_lane(x.size, lane), from_lane(x.value, lane), static_cast<i32>(first)};
}

/// Shared memory of a block that looks for pivots: two turns, so that one barrier is enough.
template <class C, int kThreads>
struct PivotSearch {
  Pivot<C> found[2][kThreads / 32];

  /// The largest of what all threads have.
  SINTER_DEVICE Pivot<C> of_block(Pivot<C> own, int turn) {
    constexpr int kWarps = kThreads / 32;
    const int lane = threadIdx.x % 32;
    own = largest_of_warp(own);
    Pivot<C>* const all = found[turn % 2];
    if (lane == 0) all[threadIdx.x / 32] = own;
    __syncthreads();
    if (kWarps == 1) return own;
    return largest_of_warp(lane < kWarps ? all[lane] : Pivot<C>{C(-1), C(0), 0});
  }
};

/// The product of pivots, negated for each two rows that changed places.
struct PivotProduct {
  double value = 1.0;
  bool is_regular = true;  // no pivot is zero or NaN
  template <class C>
  SINTER_DEVICE void add(C pivot, bool is_swapped) {
    value *= is_swapped ? -static_cast<double>(pivot) : static_cast<double>(pivot);
    is_regular = is_regular && (pivot > C(0) || pivot < C(0));
  }
};

/// How threads share the rows of a matrix or panel: neighbours have neighbouring rows, and where
/// there are fewer rows than threads, several threads have every `parts`-th column of a row.
template <int kThreads>
struct RowShare {
  int rows, parts, row, part;  // rows: taken at once; the first row and the first column of this
                               // thread

  SINTER_DEVICE explicit RowShare(int all) {
    rows = least((all + 31) / 32 * 32, kThreads);
    parts = rows == 0 ? 1 : kThreads / rows;
    row = rows == 0 ? 0 : threadIdx.x % rows;
    part = rows == 0 ? 0 : threadIdx.x / rows;
  }
};

/// Factors the first `columns` columns of `rows` rows at `a`: U, and below the diagonal L times its
/// column's pivot. Row k changed places with row swapped[k].
template <class C, int kThreads>
SINTER_DEVICE void eliminate_columns(C* a, i64 pitch, int rows, int columns, i32* swapped,
                                     PivotSearch<C, kThreads>& search, PivotProduct& product) {
  const RowShare<kThreads> share(rows);
  Pivot<C> best = {C(-1), C(0), 0};
  for (int i = threadIdx.x; i < rows; i += kThreads) best = larger(best, pivot_at(i, a[i * pitch]));
  for (int k = 0; k < columns; ++k) {
    const Pivot<C> pivot = search.of_block(best, k);
    C* const top = a + k * pitch;
    C* const other = a + pivot.row * pitch;
    product.add(pivot.value, pivot.row != k);
    if (threadIdx.x == 0) swapped[k] = pivot.row;
    if (pivot.row != k)
      for (int j = threadIdx.x; j < columns; j += kThreads) {
        const C moved = top[j];
        top[j] = other[j];
        other[j] = moved;
      }
    __syncthreads();
    best = {C(-1), C(0), 0};
    if (share.part >= share.parts) continue;
    for (int i = k + 1 + share.row; i < rows; i += share.rows) {
      C* const row = a + i * pitch;
      // Without a pivot nothing is subtracted.
      const C factor = pivot.value == C(0) ? C(0) : row[k] / pivot.value;
      int j = k + 1 + share.part;
      if (share.part == 0 && j < columns) {
        const C value = row[j] - factor * top[j];
        row[j] = value;
        best = larger(best, pivot_at(i, value));
        j += share.parts;
      }
#pragma unroll 4
      for (; j < columns; j += share.parts) row[j] -= factor * top[j];
    }
  }
  __syncthreads();
}

/// Inverts the n rows at `a` in their place, but for the order of the columns: column j of the
/// inverse is column order[j]. Gauss-Jordan, which needs no second matrix; `column` has room for
/// one column.
template <class C, int kThreads>
SINTER_DEVICE void invert_columns(C* a, int pitch, int n, C* column, i32* order,
                                  PivotSearch<C, kThreads>& search, PivotProduct& product) {
  const RowShare<kThreads> share(n);
  Pivot<C> best = {C(-1), C(0), 0};
  for (int i = threadIdx.x; i < n; i += kThreads) best = larger(best, pivot_at(i, a[i * pitch]));
  for (int k = 0; k < n; ++k) {
    const Pivot<C> pivot = search.of_block(best, k);
    C* const top = a + k * pitch;
    C* const other = a + pivot.row * pitch;
    product.add(pivot.value, pivot.row != k);
    const C inverse = C(1) / pivot.value;
    // order[k] is the row until all are known.
    if (threadIdx.x == 0) order[k] = pivot.row;
    for (int j = threadIdx.x; j < n; j += kThreads) {
      // Of the two rows, the thread that has column k knows what the column gets.
      if (j != k && j != pivot.row) column[j] = a[j * pitch + k];
      const C moved = top[j], next = other[j];
      if (j == k) column[pivot.row] = moved;
      if (pivot.row != k) other[j] = moved;
      top[j] = j == k ? inverse : next * inverse;
    }
    __syncthreads();
    best = {C(-1), C(0), 0};
    if (share.part >= share.parts) continue;
    for (int i = share.row; i < n; i += share.rows) {
      if (i == k) continue;
      C* const row = a + i * pitch;
      const C factor = column[i];
#pragma unroll 4
      for (int j = share.part; j < n; j += share.parts) {
        const C value = (j == k ? C(0) : row[j]) - factor * top[j];
        row[j] = value;
        if (i > k && j == k + 1) best = larger(best, pivot_at(i, value));
      }
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    // The rows that changed places become the columns that do, the last first.
    for (int k = n - 1; k >= 0; --k) {
      const i32 row = order[k];
      order[k] = k;
      if (row != k) {
        order[k] = order[row];
        order[row] = k;
      }
    }
  }
  __syncthreads();
}

/// A matrix in shared memory, `matrix` of those at `x`: y is its determinant or, with kInverse, its
/// inverse.
template <class T, class C, bool kInverse, int kThreads>
SINTER_DEVICE void lu_in_shared(const T* x, T* y, i64 matrix, int n) {
  SINTER_DYNAMIC_SHARED(memory);
  auto& search = *reinterpret_cast<PivotSearch<C, kThreads>*>(memory);
  C* const a = reinterpret_cast<C*>(&search + 1);
  const int pitch = n | 1;  // columns lie in different banks
  C* const column = a + n * pitch;
  i32* const order = reinterpret_cast<i32*>(column + n);
  x += matrix * n * n;
  for (int e = threadIdx.x; e < n * n; e += kThreads)
    a[e / n * pitch + e % n] = static_cast<C>(widen(x[e]));
  __syncthreads();
  PivotProduct product;
  if (!kInverse) {
    eliminate_columns<C, kThreads>(a, pitch, n, n, order, search, product);
    if (threadIdx.x == 0) y[matrix] = narrow<T>(static_cast<C>(product.value));
    return;
  }
  invert_columns<C, kThreads>(a, pitch, n, column, order, search, product);
  y += matrix * n * n;
  for (int e = threadIdx.x; e < n * n; e += kThreads)
    y[e] = narrow<T>(product.is_regular ? a[e / n * pitch + order[e % n]]
                                        : static_cast<C>(not_a_number()));
}
