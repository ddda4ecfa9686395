// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/depthwise_ops.h"

#include <algorithm>

#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/depthwise_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

#include "runtime/cpu/ops/vectors/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <int kRows, int kVectors>
HWY_INLINE void store_sums(const V (&sum)[kRows][kVectors], const DepthwisePlane& p,
                           std::int64_t row, std::int64_t column) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t first = column + v * lanes, left = p.columns - first;
    float* to = p.out + (row + r) * p.columns + first;
    if (left >= lanes)
      hn::StoreU(sum[r][v], d, to);
    else if (left > 0)
      store_tail(d, sum[r][v], to, static_cast<std::size_t>(left));
  }
}

/// Computes kRows adjacent rows, which share input rows. For windows of kHeight rows without
/// dilation.
template <int kRows, int kVectors, int kHeight>
HWY_INLINE void dense_tile(const DepthwisePlane& p, std::int64_t row, std::int64_t column) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Set(d, p.bias);
  const float* in = p.in + row * p.in_pitch + column;
  for (std::int64_t j = 0; j < p.kernel_columns; ++j) {
    V weight[kHeight];
    HWY_UNROLL(8)
    for (int i = 0; i < kHeight; ++i) weight[i] = hn::Set(d, p.weights[i * p.kernel_columns + j]);
    const float* from = in + p.offsets[j];
    HWY_UNROLL(16)
    for (int i = 0; i < kRows + kHeight - 1; ++i, from += p.in_pitch) {
      V x[kVectors];
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(d, from + v * lanes);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r)
        if (i - r >= 0 && i - r < kHeight) HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(weight[i - r], x[v], sum[r][v]);
    }
  }
  store_sums<kRows, kVectors>(sum, p, row, column);
}

template <int kRows, int kVectors>
HWY_INLINE void any_tile(const DepthwisePlane& p, std::int64_t row, std::int64_t column) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Set(d, p.bias);
  for (std::int64_t i = 0; i < p.kernel_rows; ++i) {
    const float* in = p.in + (row * p.row_stride + i * p.row_dilation) * p.in_pitch + column;
    for (std::int64_t j = 0; j < p.kernel_columns; ++j) {
      const V weight = hn::Set(d, p.weights[i * p.kernel_columns + j]);
      const float* from = in + p.offsets[j];
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = hn::MulAdd(
            weight, hn::LoadU(d, from + r * p.row_stride * p.in_pitch + v * lanes), sum[r][v]);
    }
  }
  store_sums<kRows, kVectors>(sum, p, row, column);
}

/// Covers the plane with tile(row, column) of kRows x kVectors, then the remaining rows one by one.
template <int kRows, int kVectors, class Tile, class Row>
HWY_INLINE void cover(const DepthwisePlane& p, const Tile& tile, const Row& one) {
  const std::int64_t step = kVectors * static_cast<std::int64_t>(hn::Lanes(D()));
  for (std::int64_t row = 0; row < p.rows;) {
    const bool whole = row + kRows <= p.rows;
    for (std::int64_t column = 0; column < p.columns; column += step)
      whole ? tile(row, column) : one(row, column);
    row += whole ? kRows : 1;
  }
}

template <int kHeight>
HWY_INLINE void dense_plane(const DepthwisePlane& p) {
  const bool narrow = p.columns <= static_cast<std::int64_t>(hn::Lanes(D()));
  if (narrow)
    cover<4, 1>(
        p, [&](auto r, auto c) { dense_tile<4, 1, kHeight>(p, r, c); },
        [&](auto r, auto c) { any_tile<1, 1>(p, r, c); });
  else
    cover<4, 2>(
        p, [&](auto r, auto c) { dense_tile<4, 2, kHeight>(p, r, c); },
        [&](auto r, auto c) { any_tile<1, 2>(p, r, c); });
}

void convolve_plane_vectors(const DepthwisePlane& p) {
  const bool dense = p.row_stride == 1 && p.row_dilation == 1 && p.rows >= 4;
  if (dense && p.kernel_rows == 3) return dense_plane<3>(p);
  if (dense && p.kernel_rows == 5) return dense_plane<5>(p);
  if (dense && p.kernel_rows == 7) return dense_plane<7>(p);
  if (p.rows == 1)
    cover<1, 4>(
        p, [&](auto r, auto c) { any_tile<1, 4>(p, r, c); },
        [&](auto r, auto c) { any_tile<1, 4>(p, r, c); });
  else
    cover<4, 2>(
        p, [&](auto r, auto c) { any_tile<4, 2>(p, r, c); },
        [&](auto r, auto c) { any_tile<1, 2>(p, r, c); });
}

#if HWY_TARGET == HWY_SCALAR
void part_pairs_vectors(const float* row, std::int64_t count, float* even, float* odd) {
  for (std::int64_t i = 0; i < count; ++i) (i % 2 == 0 ? even : odd)[i / 2] = row[i];
}
#else
void part_pairs_vectors(const float* row, std::int64_t count, float* even, float* odd) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto part = [&](V low, V high, std::int64_t at) {
    hn::StoreU(hn::ConcatEven(d, high, low), d, even + at / 2);
    hn::StoreU(hn::ConcatOdd(d, high, low), d, odd + at / 2);
  };
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes)
    part(hn::LoadU(d, row + i), hn::LoadU(d, row + i + lanes), i);
  if (i == count) return;
  const auto load = [&](std::int64_t at) {
    const std::int64_t left = count - at;
    if (left <= 0) return hn::Zero(d);
    return left >= lanes ? hn::LoadU(d, row + at)
                         : load_tail(d, row + at, static_cast<std::size_t>(left));
  };
  part(load(i), load(i + lanes), i);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(convolve_plane_vectors);
HWY_EXPORT(part_pairs_vectors);

void convolve_plane(const DepthwisePlane& plane) {
  HWY_DYNAMIC_DISPATCH(convolve_plane_vectors)(plane);
}

void part_pairs(const float* row, std::int64_t count, float* even, float* odd) {
  HWY_DYNAMIC_DISPATCH(part_pairs_vectors)(row, count, even, odd);
}

}  // namespace sinter::runtime::cpu
#endif
