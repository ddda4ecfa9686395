// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/panel_ops.h"

#include <limits>

#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/panel_ops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks.
#include <hwy/highway.h>

#include "runtime/cpu/ops/vectors/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile of sums stays in registers, of which there are 32 or 16.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kTileRows = 6, kTileVectors = 4, kDotRows = 4;
#else
constexpr int kTileRows = 6, kTileVectors = 2, kDotRows = 2;
#endif
constexpr int kDotColumns = 4;

/// No wider than a panel's step.
template <typename T>
using P = hn::CappedTag<T, kPanelStep>;
template <typename T>
using PV = hn::VFromD<P<T>>;

template <typename T>
HWY_INLINE PV<T> multiply_add(PV<T> a, PV<T> b, PV<T> c) {
  if constexpr (hwy::IsFloat<T>()) {
    return hn::MulAdd(a, b, c);
  } else {
    return hn::Add(hn::Mul(a, b), c);
  }
}

template <int kRows, int kVectors, typename T>
HWY_INLINE void add_tile(const T* const* x, const T* b, std::int64_t b_pitch, std::int64_t k, T* y,
                         std::int64_t y_pitch) {
  const P<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  PV<T> sum[kRows][kVectors];
  const T* rows[kRows];
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    rows[m] = x[m];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) sum[m][v] = hn::LoadU(d, y + m * y_pitch + v * lanes);
  }
  for (std::int64_t i = 0; i < k; ++i, b += b_pitch) {
    PV<T> right[kVectors];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * lanes);
    HWY_UNROLL(8)
    for (int m = 0; m < kRows; ++m) {
      const PV<T> left = hn::Set(d, rows[m][i]);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) sum[m][v] = multiply_add<T>(left, right[v], sum[m][v]);
    }
  }
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[m][v], d, y + m * y_pitch + v * lanes);
}

template <int kVectors, typename T>
HWY_INLINE void add_columns(const T* const* x, std::int64_t count, const T* b, std::int64_t b_pitch,
                            std::int64_t k, T* y, std::int64_t y_pitch) {
  std::int64_t m = 0;
  for (; m + kTileRows <= count; m += kTileRows)
    add_tile<kTileRows, kVectors>(x + m, b, b_pitch, k, y + m * y_pitch, y_pitch);
  T* last = y + m * y_pitch;
  switch (count - m) {
    case 1: return add_tile<1, kVectors>(x + m, b, b_pitch, k, last, y_pitch);
    case 2: return add_tile<2, kVectors>(x + m, b, b_pitch, k, last, y_pitch);
    case 3: return add_tile<3, kVectors>(x + m, b, b_pitch, k, last, y_pitch);
    case 4: return add_tile<4, kVectors>(x + m, b, b_pitch, k, last, y_pitch);
    case 5: return add_tile<5, kVectors>(x + m, b, b_pitch, k, last, y_pitch);
    default: return;
  }
}

template <typename T>
HWY_INLINE void add_panel(const T* const* x, std::int64_t count, const T* b, std::int64_t b_pitch,
                          std::int64_t columns, std::int64_t k, T* y, std::int64_t y_pitch) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(P<T>()));
  std::int64_t n = 0;
  for (; n + kTileVectors * lanes <= columns; n += kTileVectors * lanes)
    add_columns<kTileVectors>(x, count, b + n, b_pitch, k, y + n, y_pitch);
  for (; n + 2 * lanes <= columns; n += 2 * lanes)
    add_columns<2>(x, count, b + n, b_pitch, k, y + n, y_pitch);
  for (; n < columns; n += lanes) add_columns<1>(x, count, b + n, b_pitch, k, y + n, y_pitch);
}

void add_products_vectors(const float* const* x, std::int64_t count, const float* b,
                          std::int64_t b_pitch, std::int64_t columns, std::int64_t k, float* y,
                          std::int64_t y_pitch) {
  add_panel(x, count, b, b_pitch, columns, k, y, y_pitch);
}

void add_products_f64(const double* const* x, std::int64_t count, const double* b,
                      std::int64_t b_pitch, std::int64_t columns, std::int64_t k, double* y,
                      std::int64_t y_pitch) {
  add_panel(x, count, b, b_pitch, columns, k, y, y_pitch);
}

void add_products_u32(const std::uint32_t* const* x, std::int64_t count, const std::uint32_t* b,
                      std::int64_t b_pitch, std::int64_t columns, std::int64_t k, std::uint32_t* y,
                      std::int64_t y_pitch) {
  add_panel(x, count, b, b_pitch, columns, k, y, y_pitch);
}

/// kRows rows of x times kColumns rows of t.
template <int kRows, int kColumns>
HWY_INLINE void add_dot_tile(const float* const* x, const float* t, std::int64_t t_pitch,
                             std::int64_t k, float* y, std::int64_t y_pitch) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[kRows][kColumns];
  for (int m = 0; m < kRows; ++m)
    for (int c = 0; c < kColumns; ++c) sum[m][c] = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    V right[kColumns];
    for (int c = 0; c < kColumns; ++c) right[c] = hn::LoadU(d, t + c * t_pitch + i);
    for (int m = 0; m < kRows; ++m) {
      const V left = hn::LoadU(d, x[m] + i);
      for (int c = 0; c < kColumns; ++c) sum[m][c] = hn::MulAdd(left, right[c], sum[m][c]);
    }
  }
  if (i < k) {
    const auto count = static_cast<std::size_t>(k - i);
    for (int c = 0; c < kColumns; ++c) {
      const V right = load_tail(d, t + c * t_pitch + i, count);
      for (int m = 0; m < kRows; ++m)
        sum[m][c] = hn::MulAdd(load_tail(d, x[m] + i, count), right, sum[m][c]);
    }
  }
  for (int m = 0; m < kRows; ++m)
    for (int c = 0; c < kColumns; ++c)
      y[m * y_pitch + c] += hn::GetLane(hn::SumOfLanes(d, sum[m][c]));
}

template <int kColumns>
HWY_INLINE void add_dot_columns(const float* const* x, std::int64_t count, const float* t,
                                std::int64_t t_pitch, std::int64_t k, float* y,
                                std::int64_t y_pitch) {
  std::int64_t m = 0;
  for (; m + kDotRows <= count; m += kDotRows)
    add_dot_tile<kDotRows, kColumns>(x + m, t, t_pitch, k, y + m * y_pitch, y_pitch);
  for (; m < count; ++m) add_dot_tile<1, kColumns>(x + m, t, t_pitch, k, y + m * y_pitch, y_pitch);
}

void add_dots_vectors(const float* const* x, std::int64_t count, const float* t,
                      std::int64_t t_pitch, std::int64_t rows, std::int64_t k, float* y,
                      std::int64_t y_pitch) {
  std::int64_t r = 0;
  for (; r + kDotColumns <= rows; r += kDotColumns)
    add_dot_columns<kDotColumns>(x, count, t + r * t_pitch, t_pitch, k, y + r, y_pitch);
  for (; r < rows; ++r) add_dot_columns<1>(x, count, t + r * t_pitch, t_pitch, k, y + r, y_pitch);
}

/// Rows in fours, each 4 x 4 of them by shuffles; how many rows are done.
std::int64_t transpose_fours(const float* from, std::int64_t from_pitch, std::int64_t rows,
                             std::int64_t columns, float* to, std::int64_t to_pitch) {
#if HWY_TARGET == HWY_SCALAR
  (void)from, (void)from_pitch, (void)rows, (void)columns, (void)to, (void)to_pitch;
  return 0;
#else
  const hn::FixedTag<float, 4> d;
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* row = from + r * from_pitch;
    std::int64_t i = 0;
    for (; i + 4 <= columns; i += 4) {
      const auto a = hn::LoadU(d, row + i), b = hn::LoadU(d, row + from_pitch + i),
                 c = hn::LoadU(d, row + 2 * from_pitch + i),
                 e = hn::LoadU(d, row + 3 * from_pitch + i);
      const auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e),
                 ac_up = hn::InterleaveUpper(d, a, c), be_up = hn::InterleaveUpper(d, b, e);
      float* target = to + i * to_pitch + r;
      hn::StoreU(hn::InterleaveLower(d, ac, be), d, target);
      hn::StoreU(hn::InterleaveUpper(d, ac, be), d, target + to_pitch);
      hn::StoreU(hn::InterleaveLower(d, ac_up, be_up), d, target + 2 * to_pitch);
      hn::StoreU(hn::InterleaveUpper(d, ac_up, be_up), d, target + 3 * to_pitch);
    }
    for (; i < columns; ++i)
      for (int more = 0; more < 4; ++more) to[i * to_pitch + r + more] = row[more * from_pitch + i];
  }
  return r;
#endif
}

void transpose_vectors(const float* from, std::int64_t from_pitch, std::int64_t rows,
                       std::int64_t columns, float* to, std::int64_t to_pitch) {
  for (std::int64_t r = transpose_fours(from, from_pitch, rows, columns, to, to_pitch); r < rows;
       ++r)
    for (std::int64_t i = 0; i < columns; ++i) to[i * to_pitch + r] = from[r * from_pitch + i];
}

void scale_vectors(float* values, std::int64_t count, float factor) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V by = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), by), d, values + i);
  for (; i < count; ++i) values[i] *= factor;
}

void add_scores_vectors(float* scores, std::int64_t count, SoftmaxRow& row) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  V most = hn::Set(d, row.greatest);
  std::int64_t whole = 0;
  for (; whole + lanes <= count; whole += lanes)
    most = MaxOp::apply(d, most, hn::LoadU(d, scores + whole));
  float greatest = hn::GetLane(hn::MaxOfLanes(d, most));
  for (std::int64_t i = whole; i < count; ++i)
    if (!(scores[i] <= greatest)) greatest = scores[i];
  if (greatest == kHidden) {  // nothing is seen yet: 0, where the formula is not a number
    for (std::int64_t i = 0; i < count; ++i) scores[i] = 0;
    return;
  }
  if (!(greatest == row.greatest)) {
    const float factor = hn::GetLane(exp_f32(d, hn::Set(d, row.greatest - greatest)));
    row.sum *= factor;
    scale_vectors(row.values, row.columns, factor);
    row.greatest = greatest;
  }
  const V down = hn::Set(d, greatest);
  V sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i < whole; i += lanes) {
    const V weight = exp_f32(d, hn::Sub(hn::LoadU(d, scores + i), down));
    hn::StoreU(weight, d, scores + i);
    sum = hn::Add(sum, weight);
  }
  float rest = 0;
  if (i < count) {
    const auto left = static_cast<std::size_t>(count - i);
    store_tail(d, exp_f32(d, hn::Sub(load_tail(d, scores + i, left), down)), scores + i, left);
    for (; i < count; ++i) rest += scores[i];
  }
  row.sum += hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(add_products_vectors);
HWY_EXPORT(add_products_f64);
HWY_EXPORT(add_products_u32);
HWY_EXPORT(add_dots_vectors);
HWY_EXPORT(transpose_vectors);
HWY_EXPORT(add_scores_vectors);
HWY_EXPORT(scale_vectors);

void add_products(const float* const* x, std::int64_t count, const float* b, std::int64_t b_pitch,
                  std::int64_t columns, std::int64_t k, float* y, std::int64_t y_pitch) {
  HWY_DYNAMIC_DISPATCH(add_products_vectors)(x, count, b, b_pitch, columns, k, y, y_pitch);
}

void add_products(const double* const* x, std::int64_t count, const double* b, std::int64_t b_pitch,
                  std::int64_t columns, std::int64_t k, double* y, std::int64_t y_pitch) {
  HWY_DYNAMIC_DISPATCH(add_products_f64)(x, count, b, b_pitch, columns, k, y, y_pitch);
}

void add_products(const std::uint32_t* const* x, std::int64_t count, const std::uint32_t* b,
                  std::int64_t b_pitch, std::int64_t columns, std::int64_t k, std::uint32_t* y,
                  std::int64_t y_pitch) {
  HWY_DYNAMIC_DISPATCH(add_products_u32)(x, count, b, b_pitch, columns, k, y, y_pitch);
}

/// Not every set of instructions multiplies these.
void add_products(const std::uint64_t* const* x, std::int64_t count, const std::uint64_t* b,
                  std::int64_t b_pitch, std::int64_t columns, std::int64_t k, std::uint64_t* y,
                  std::int64_t y_pitch) {
  for (std::int64_t m = 0; m < count; ++m)
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t n = 0; n < columns; ++n) y[m * y_pitch + n] += x[m][i] * b[i * b_pitch + n];
}

void add_dots(const float* const* x, std::int64_t count, const float* t, std::int64_t t_pitch,
              std::int64_t rows, std::int64_t k, float* y, std::int64_t y_pitch) {
  HWY_DYNAMIC_DISPATCH(add_dots_vectors)(x, count, t, t_pitch, rows, k, y, y_pitch);
}

void transpose_floats(const float* from, std::int64_t from_pitch, std::int64_t rows,
                      std::int64_t columns, float* to, std::int64_t to_pitch) {
  HWY_DYNAMIC_DISPATCH(transpose_vectors)(from, from_pitch, rows, columns, to, to_pitch);
}

void add_scores(float* scores, std::int64_t count, SoftmaxRow& row) {
  HWY_DYNAMIC_DISPATCH(add_scores_vectors)(scores, count, row);
}

void scale_values(float* values, std::int64_t count, float factor) {
  HWY_DYNAMIC_DISPATCH(scale_vectors)(values, count, factor);
}

}  // namespace sinter::runtime::cpu
#endif
