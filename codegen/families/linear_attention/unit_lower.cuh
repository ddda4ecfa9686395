// SPDX-License-Identifier: Apache-2.0
// The inverse of a unit lower triangular matrix I + A of 64 rows in shared memory, in place and in
// float32, by a block of 128 threads. `at(row, column)` is where an element of A is; rows are
// aligned to 16 bytes. The upper right is not A's: it is written.
#pragma once

#include "vector.cuh"

constexpr int kHalfRows = 32;

/// A half of the diagonal by substitution, a column for each lane of a warp.
template <class At>
SINTER_DEVICE void invert_diagonal(const At& at, int half, int lane) {
  const int corner = half * kHalfRows;
  float column[kHalfRows];
#pragma unroll
  for (int i = 0; i < kHalfRows; ++i) {
    float sums[4] = {i == lane ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < i; ++k)
      sums[k % 4] = fmaf(-*at(corner + i, corner + k), column[k], sums[k % 4]);
    column[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kHalfRows; ++i) *at(corner + i, corner + lane) = column[i];
}

/// A quarter of the matrix is `sign` times the product of two others, by their first elements.
template <class At>
SINTER_DEVICE void multiply_quarters(const At& at, int a_row, int a_column, int b_row, int b_column,
                                     int to_row, int to_column, float sign) {
  const int row = static_cast<int>(threadIdx.x) / 4, column = static_cast<int>(threadIdx.x) % 4 * 8;
  float sums[8] = {};
#pragma unroll 8
  for (int k = 0; k < kHalfRows; ++k) {
    const float a = *at(a_row + row, a_column + k);
    const auto b = load<8>(at(b_row + k, b_column + column));
#pragma unroll
    for (int j = 0; j < 8; ++j) sums[j] = fmaf(a, b.v[j], sums[j]);
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) sums[j] *= sign;
  store(at(to_row + row, to_column + column), sums);
}

/// The lower left, when both halves of the diagonal are there: -(lower right) A (upper left).
template <class At>
SINTER_DEVICE void invert_lower_left(const At& at) {
  multiply_quarters(at, kHalfRows, 0, 0, 0, 0, kHalfRows, 1.0f);
  __syncthreads();
  multiply_quarters(at, kHalfRows, kHalfRows, 0, kHalfRows, kHalfRows, 0, -1.0f);
  __syncthreads();
}
