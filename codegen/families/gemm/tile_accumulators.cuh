// SPDX-License-Identifier: Apache-2.0
// A GEMM tile's accumulators in shared memory, from which the epilogue's threads read them in any
// order, for every mainloop.
#pragma once

#include "cluster.cuh"
#include "vector.cuh"

/// Accumulators of a tile of kM rows in shared memory, with row stride kStride. kParts partial sums
/// in each of kSplitK adjacent blocks of a cluster are added in order.
template <int kM, int kStride, int kParts, int kSplitK, class SumType = float>
struct TileAccumulators {
  typedef SumType Sum;
  /// The sums of one row from a column that is a multiple of N. `rank` is this block's in its
  /// cluster; the splits of a tile are adjacent.
  template <int N>
  SINTER_DEVICE static void add_up(Sum (&x)[N], const Sum* accumulators, int row, int column,
                                   u32 rank) {
    const Sum* mine = accumulators + row * kStride + column;
    bool is_first = true;
#pragma unroll
    for (int split = 0; split < kSplitK; ++split) {
      const Sum* parts =
          kSplitK > 1 ? of_block(mine, rank / kSplitK * kSplitK + static_cast<u32>(split)) : mine;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Vec<Sum, N> some = load<N>(parts + part * kM * kStride);
#pragma unroll
        for (int j = 0; j < N; ++j) x[j] = is_first ? some.v[j] : x[j] + some.v[j];
        is_first = false;
      }
    }
  }
};

/// Columns kPart, kPart + kParts, .. of a tile.
template <int kParts, int kPart>
struct Alternate {};

/// A tile with access for the epilogue: Tile::Totals, a TileAccumulators, over
/// Tile::accumulators_of(shared).
template <class Tile>
struct WithAccumulators : Tile {
  typedef typename Tile::Totals::Sum Sum;
  template <int N>
  SINTER_DEVICE static void sum(Sum (&x)[N], unsigned char* shared, int row, int column, u32 rank) {
    Tile::Totals::add_up(x, Tile::accumulators_of(shared), row, column, rank);
  }
  /// `column` counts those of `which`.
  template <int N, int kParts, int kPart>
  SINTER_DEVICE static void sum(Sum (&x)[N], unsigned char* shared, int row, int column, u32 rank,
                                Alternate<kParts, kPart> which) {
    Sum all[N * kParts];
    sum(all, shared, row, column * kParts, rank);
#pragma unroll
    for (int j = 0; j < N; ++j) x[j] = all[j * kParts + kPart];
  }
  template <class... Which>
  SINTER_DEVICE static Sum sum(unsigned char* shared, int row, int column, u32 rank,
                               Which... which) {
    Sum x[1];
    sum(x, shared, row, column, rank, which...);
    return x[0];
  }
};
