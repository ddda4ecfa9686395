// SPDX-License-Identifier: Apache-2.0
// Rows combined with the values of their group, in the order of the group. kLanes threads have a
// row, or as much of it as they hold. Groups of more than kLongGroup values are divided where the
// order is: parts of kLongGroup positions, whose results meet in their order.
#pragma once

#include "lanes.cuh"
#include "vector.cuh"

constexpr int kRowThreads = 256;
constexpr int kLongGroup = 256;
constexpr int kRowsAhead = 8;  // rows on their way to a thread

template <class Storage, class Sums, class Combine, class OrderIndex, int kElements,
          int kThreadsOfRow, bool kHasFactors, bool kIsFilled>
struct GroupShape {
  typedef Storage T;
  typedef Sums Sum;
  typedef Combine Op;
  typedef OrderIndex Index;
  static constexpr int kVector = kElements, kLanes = kThreadsOfRow;
  static constexpr int kRows = kRowThreads / kLanes;  // of a block
  static constexpr bool kScaled = kHasFactors, kFilled = kIsFilled;
};

template <class Shape>
struct GroupProblem {
  i64 rows, width, sources, count;
  const typename Shape::T* data;
  const typename Shape::T* values;
  const typename Shape::Index* order;
  const i32* starts;
  const typename Shape::T* factors;
};

template <class Shape>
struct RowSums {
  typename Shape::Sum v[Shape::kVector];

  SINTER_DEVICE static RowSums identity() {
    RowSums result;
#pragma unroll
    for (int e = 0; e < Shape::kVector; ++e)
      result.v[e] = Shape::Op::template identity<typename Shape::Sum>();
    return result;
  }
  SINTER_DEVICE static RowSums of_data(const GroupProblem<Shape>& p, i64 row, i64 column) {
    const auto x =
        load < Shape::kFilled
            ? 1
            : Shape::kVector > (Shape::kFilled ? p.data : p.data + row * p.width + column);
    RowSums result;
#pragma unroll
    for (int e = 0; e < Shape::kVector; ++e) result.v[e] = widen(x.v[Shape::kFilled ? 0 : e]);
    return result;
  }
  SINTER_DEVICE void add(const RowSums& other) {
#pragma unroll
    for (int e = 0; e < Shape::kVector; ++e) v[e] = Shape::Op::of(v[e], other.v[e]);
  }
  /// With the values of positions [begin, end) of the order.
  SINTER_DEVICE void add(const GroupProblem<Shape>& p, i64 begin, i64 end, i64 column) {
    typedef typename Shape::Sum Sum;
    if (p.sources == 0) return;  // indices of nothing
    for (i64 i = begin; i < end; i += kRowsAhead) {
      Vec<typename Shape::T, Shape::kVector> rows[kRowsAhead];
      Sum factors[kRowsAhead];
#pragma unroll
      for (int k = 0; k < kRowsAhead; ++k) {
        if (i + k >= end) continue;
        const i64 at = wrap_index(p.order[i + k], p.sources);
        rows[k] = load<Shape::kVector>(p.values + at * p.width + column);
        if constexpr (Shape::kScaled) factors[k] = widen(p.factors[i + k]);
      }
#pragma unroll
      for (int k = 0; k < kRowsAhead; ++k) {
        if (i + k >= end) continue;
#pragma unroll
        for (int e = 0; e < Shape::kVector; ++e) {
          Sum x = widen(rows[k].v[e]);
          if constexpr (Shape::kScaled) x = multiply(x, factors[k]);
          v[e] = Shape::Op::of(v[e], x);
        }
      }
    }
  }
  SINTER_DEVICE void store_row(const GroupProblem<Shape>& p, typename Shape::T* y, i64 row,
                               i64 column) const {
    Vec<typename Shape::T, Shape::kVector> x;
#pragma unroll
    for (int e = 0; e < Shape::kVector; ++e) x.v[e] = narrow<typename Shape::T>(v[e]);
    store(y + row * p.width + column, x);
  }
};

/// The row whose group has a position of the order.
template <class Shape>
SINTER_DEVICE i64 row_with(const GroupProblem<Shape>& p, i64 position) {
  i64 low = 0, high = p.rows;  // the first row that begins behind it
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (p.starts[middle] <= position)
      low = middle + 1;
    else
      high = middle;
  }
  return low - 1;
}

template <class Shape>
SINTER_DEVICE i64 first_column() {
  return (i64(blockIdx.y) * Shape::kLanes + threadIdx.x % Shape::kLanes) * Shape::kVector;
}

/// Sums of a part: of the group at its first position, and of the one that begins in it and goes
/// on behind it, if these are long.
template <class Shape>
SINTER_DEVICE void combine_part(const GroupProblem<Shape>& p, typename Shape::Sum* parts, i64 part,
                                i64 column) {
  const i64 total = p.starts[p.rows], first = part * kLongGroup;
  if (first >= total) return;
  const i64 end = first + kLongGroup < total ? first + kLongGroup : total;
  i64 row = row_with(p, first);
  for (int side = 0; side < 2; ++side) {
    const i64 begins = p.starts[row], ends = p.starts[row + 1];
    if (ends - begins > kLongGroup) {
      RowSums<Shape> sums = RowSums<Shape>::identity();
      sums.add(p, begins > first ? begins : first, ends < end ? ends : end, column);
      typename Shape::Sum* to = parts + (2 * part + side) * p.width + column;
#pragma unroll
      for (int e = 0; e < Shape::kVector; ++e) to[e] = sums.v[e];
    }
    const i64 last = row_with(p, end - 1);
    if (last == row) return;
    row = last;
  }
}

/// Blocks along x have rows first, then parts. `parts` null: no group is long.
template <class Shape>
SINTER_DEVICE void combine_rows(const GroupProblem<Shape>& p, typename Shape::T* y,
                                typename Shape::Sum* parts) {
  const i64 blocks = (p.rows + Shape::kRows - 1) / Shape::kRows, column = first_column<Shape>();
  const i64 own = threadIdx.x / Shape::kLanes;
  if (column >= p.width) return;
  if (blockIdx.x >= blocks) {
    if (parts != nullptr)
      combine_part(p, parts, (i64(blockIdx.x) - blocks) * Shape::kRows + own, column);
    return;
  }
  const i64 row = i64(blockIdx.x) * Shape::kRows + own;
  if (row >= p.rows) return;
  const i64 begin = p.starts[row], end = p.starts[row + 1];
  if (parts != nullptr && end - begin > kLongGroup) return;
  RowSums<Shape> sums = RowSums<Shape>::of_data(p, row, column);
  sums.add(p, begin, end, column);
  sums.store_row(p, y, row, column);
}

/// The rows of long groups. A block has the group that begins in its part and goes on behind it;
/// its threads add up runs of parts, which then meet in their order.
template <class Shape>
SINTER_DEVICE void join_parts(const GroupProblem<Shape>& p, typename Shape::T* y,
                              const typename Shape::Sum* parts) {
  __shared__ typename Shape::Sum met[kRowThreads * Shape::kVector];
  const i64 total = p.starts[p.rows], part = blockIdx.x, first = part * kLongGroup;
  if (first >= total) return;
  const i64 end = first + kLongGroup < total ? first + kLongGroup : total;
  const i64 row = row_with(p, end - 1), begins = p.starts[row], ends = p.starts[row + 1];
  if (begins < first || ends - begins <= kLongGroup) return;
  const i64 count = (ends - 1) / kLongGroup - part + 1, column = first_column<Shape>();
  const i64 each = (count + Shape::kRows - 1) / Shape::kRows;
  const i64 own = threadIdx.x / Shape::kLanes, begin = own * each;
  RowSums<Shape> sums = RowSums<Shape>::identity();
  if (column < p.width) {
#pragma unroll 4
    for (i64 k = begin; k < begin + each && k < count; ++k) {
      // Only at its beginning a group may be the second of a part.
      const i64 side = k == 0 && begins > first ? 1 : 0;
      const typename Shape::Sum* from = parts + (2 * (part + k) + side) * p.width + column;
      RowSums<Shape> other;
#pragma unroll
      for (int e = 0; e < Shape::kVector; ++e) other.v[e] = from[e];
      sums.add(other);
    }
  }
#pragma unroll
  for (int e = 0; e < Shape::kVector; ++e) met[e * kRowThreads + threadIdx.x] = sums.v[e];
  __syncthreads();
  if (own > 0 || column >= p.width) return;
  sums = RowSums<Shape>::of_data(p, row, column);
  for (i64 k = 0; k < Shape::kRows && k * each < count; ++k)
#pragma unroll
    for (int e = 0; e < Shape::kVector; ++e)
      sums.v[e] = Shape::Op::of(sums.v[e], met[e * kRowThreads + k * Shape::kLanes + threadIdx.x]);
  sums.store_row(p, y, row, column);
}
