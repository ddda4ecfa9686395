// SPDX-License-Identifier: Apache-2.0
// Values combined in a table that a block holds. Each warp has a copy and a run of the values:
// lanes that mean one element combine in their order first, so that nothing depends on timing. The
// copies of a block meet in the order of its warps, those of the blocks in the order of the blocks.
#pragma once

#include "lanes.cuh"

constexpr int kTableAhead = 4;                    // values on their way to a lane
constexpr int kJoinColumns = 32, kJoinParts = 8;  // threads of a block that joins

template <class Storage, class Sums, class Combine, class IndexType, int kTableElements,
          int kRowWidth, int kTableWarps, bool kIsFilled>
struct TableShape {
  typedef Storage T;
  typedef Sums Sum;
  typedef Combine Op;
  typedef IndexType Index;
  static constexpr int kElements = kTableElements, kWidth = kRowWidth, kWarps = kTableWarps;
  static constexpr bool kFilled = kIsFilled;
};

/// `element` below zero: none. All lanes of a warp.
template <class Shape>
SINTER_DEVICE void add_to_table(typename Shape::Sum* table, int element, typename Shape::Sum x) {
  const u32 alike = lanes_alike(static_cast<u32>(element));
  const bool leads = lowest_lane(alike) == static_cast<int>(threadIdx.x % 32);
  u32 others = leads ? alike & (alike - 1) : 0;
  while (__ballot_sync(0xffffffffu, others != 0) != 0) {
    const int from = others != 0 ? lowest_lane(others) : static_cast<int>(threadIdx.x % 32);
    const typename Shape::Sum other = from_lane(x, from);
    if (others != 0) x = Shape::Op::of(x, other);
    others &= others - 1;
  }
  if (leads && element >= 0) table[element] = Shape::Op::of(table[element], x);
  __syncwarp();
}

template <class Shape>
SINTER_DEVICE void fill_tables(const typename Shape::T* values, const typename Shape::Index* index,
                               i64 count, i64 blocks, typename Shape::Sum* parts) {
  typedef typename Shape::Sum Sum;
  constexpr int kThreads = Shape::kWarps * 32, kRows = Shape::kElements / Shape::kWidth;
  __shared__ Sum tables[Shape::kWarps * Shape::kElements];
  if (blockIdx.x >= blocks) return;
  for (int e = threadIdx.x; e < Shape::kWarps * Shape::kElements; e += kThreads)
    tables[e] = Shape::Op::template identity<Sum>();
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 all = count * Shape::kWidth, warps = blocks * Shape::kWarps;
  const i64 each = (all + warps - 1) / warps;
  const i64 first = (i64(blockIdx.x) * Shape::kWarps + warp) * each;
  const i64 last = first + each < all ? first + each : all;
  for (i64 i = first; i < last; i += 32 * kTableAhead) {
    int elements[kTableAhead];
    Sum x[kTableAhead];
#pragma unroll
    for (int k = 0; k < kTableAhead; ++k) {
      const i64 at = i + k * 32 + lane;
      elements[k] = -1;
      x[k] = Sum(0);
      if (at >= last) continue;
      const typename Shape::Index row = index[at / Shape::kWidth];
      x[k] = widen(values[at]);
      if (has_index(row, kRows))
        elements[k] = static_cast<int>(wrap_index(row, kRows) * Shape::kWidth + at % Shape::kWidth);
    }
#pragma unroll
    for (int k = 0; k < kTableAhead; ++k)
      add_to_table<Shape>(tables + warp * Shape::kElements, elements[k], x[k]);
  }
  __syncthreads();
  for (int e = threadIdx.x; e < Shape::kElements; e += kThreads) {
    Sum sum = tables[e];
#pragma unroll
    for (int w = 1; w < Shape::kWarps; ++w)
      sum = Shape::Op::of(sum, tables[w * Shape::kElements + e]);
    parts[i64(blockIdx.x) * Shape::kElements + e] = sum;
  }
}

/// kJoinParts threads of an element add up runs of parts, which then meet in their order.
template <class Shape>
SINTER_DEVICE void join_tables(const typename Shape::T* data, const typename Shape::Sum* parts,
                               i64 blocks, typename Shape::T* y) {
  typedef typename Shape::Sum Sum;
  __shared__ Sum met[kJoinParts * kJoinColumns];
  const int column = threadIdx.x % kJoinColumns, own = threadIdx.x / kJoinColumns;
  const int e = blockIdx.x * kJoinColumns + column;
  const i64 each = (blocks + kJoinParts - 1) / kJoinParts, first = own * each;
  Sum sum = Shape::Op::template identity<Sum>();
  if (e < Shape::kElements)
#pragma unroll 8
    for (i64 k = first; k < first + each && k < blocks; ++k)
      sum = Shape::Op::of(sum, parts[k * Shape::kElements + e]);
  met[own * kJoinColumns + column] = sum;
  __syncthreads();
  if (own > 0 || e >= Shape::kElements) return;
  sum = widen(data[Shape::kFilled ? 0 : e]);
  for (int k = 0; k < kJoinParts && k * each < blocks; ++k)
    sum = Shape::Op::of(sum, met[k * kJoinColumns + column]);
  y[e] = narrow<typename Shape::T>(sum);
}
