// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/narrow_ops.h"

#include <cstring>

#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/narrow_ops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename Byte>
void widen(const Byte* from, std::int64_t stride, std::int64_t count, std::int16_t* to) {
  if (stride != 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];  // NOLINT: numbers
    return;
  }
  const hn::ScalableTag<std::int16_t> d;
  const hn::Rebind<Byte, decltype(d)> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(bytes, from + i)), d, to + i);
  for (; i < count; ++i) to[i] = from[i];  // NOLINT: numbers
}

void widen_vectors(DType type, const std::byte* from, std::int64_t stride, std::int64_t count,
                   std::int16_t* to) {
  if (type == DType::kInt8)
    widen(reinterpret_cast<const std::int8_t*>(from), stride, count, to);
  else
    widen(reinterpret_cast<const std::uint8_t*>(from), stride, count, to);
}

template <typename Byte>
void multiply(const std::byte* const* x, const std::int16_t* const* w, std::int64_t taps,
              std::int64_t count, std::int32_t* y) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::Rebind<std::int16_t, decltype(d)> halves;
  const hn::Rebind<Byte, decltype(d)> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto sum = hn::Zero(d);
    for (std::int64_t t = 0; t < taps; ++t) {
      const auto* from = reinterpret_cast<const Byte*>(x[t]) + i;
      const auto left = hn::PromoteTo(d, hn::LoadU(bytes, from)),
                 right = hn::PromoteTo(d, hn::LoadU(halves, w[t] + i));
      sum = hn::Add(sum, hn::Mul(left, right));
    }
    hn::StoreU(sum, d, y + i);
  }
  for (; i < count; ++i) {
    y[i] = 0;
    for (std::int64_t t = 0; t < taps; ++t) y[i] += static_cast<Byte>(x[t][i]) * w[t][i];
  }
}

void multiply_vectors(DType type, const std::byte* const* x, const std::int16_t* const* w,
                      std::int64_t taps, std::int64_t count, std::int32_t* y) {
  if (type == DType::kInt8)
    multiply<std::int8_t>(x, w, taps, count, y);
  else
    multiply<std::uint8_t>(x, w, taps, count, y);
}

#if HWY_TARGET == HWY_SCALAR

void add_pairs(const std::int16_t* const* x, std::int64_t count, const std::int16_t* b,
               std::int64_t columns, std::int64_t pairs, std::int32_t* y, std::int64_t y_pitch) {
  for (std::int64_t m = 0; m < count; ++m)
    for (std::int64_t i = 0; i < pairs; ++i)
      for (std::int64_t n = 0; n < columns; ++n) {
        const std::int16_t* pair = b + 2 * (i * columns + n);
        auto& sum = reinterpret_cast<std::uint32_t&>(y[m * y_pitch + n]);
        sum += static_cast<std::uint32_t>(x[m][2 * i] * pair[0] + x[m][2 * i + 1] * pair[1]);
      }
}

#else

// A tile of sums stays in registers, of which there are 32 or 16.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kTileRows = 6, kTileVectors = 4;
#else
constexpr int kTileRows = 6, kTileVectors = 2;
#endif

/// No wider than a panel's step.
using Sums = hn::CappedTag<std::int32_t, kPanelStep>;
using Pairs = hn::Repartition<std::int16_t, Sums>;

template <int kRows, int kVectors>
HWY_INLINE void add_tile(const std::int16_t* const* x, const std::int16_t* b, std::int64_t columns,
                         std::int64_t pairs, std::int32_t* y, std::int64_t y_pitch) {
  const Sums d;
  const Pairs d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // Where an instruction gives the lower and the upper half, the second ones are used as well.
  hn::VFromD<Sums> sum[kRows][kVectors], second[kRows][kVectors];
  const std::int16_t* rows[kRows];
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    rows[m] = x[m];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) sum[m][v] = second[m][v] = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < pairs; ++i, b += 2 * columns) {
    hn::VFromD<Pairs> right[kVectors];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d16, b + v * lanes * 2);
    HWY_UNROLL(8)
    for (int m = 0; m < kRows; ++m) {
      std::int32_t pair = 0;
      std::memcpy(&pair, rows[m] + 2 * i, sizeof pair);
      const auto left = hn::BitCast(d16, hn::Set(d, pair));
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v)
        sum[m][v] = hn::ReorderWidenMulAccumulate(d, left, right[v], sum[m][v], second[m][v]);
    }
  }
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    std::int32_t* to = y + m * y_pitch + v * lanes;
    const auto both = hn::RearrangeToOddPlusEven(sum[m][v], second[m][v]);
    hn::StoreU(hn::Add(hn::LoadU(d, to), both), d, to);
  }
}

template <int kVectors>
HWY_INLINE void add_columns(const std::int16_t* const* x, std::int64_t count, const std::int16_t* b,
                            std::int64_t columns, std::int64_t pairs, std::int32_t* y,
                            std::int64_t y_pitch) {
  std::int64_t m = 0;
  for (; m + kTileRows <= count; m += kTileRows)
    add_tile<kTileRows, kVectors>(x + m, b, columns, pairs, y + m * y_pitch, y_pitch);
  std::int32_t* last = y + m * y_pitch;
  switch (count - m) {
    case 1: return add_tile<1, kVectors>(x + m, b, columns, pairs, last, y_pitch);
    case 2: return add_tile<2, kVectors>(x + m, b, columns, pairs, last, y_pitch);
    case 3: return add_tile<3, kVectors>(x + m, b, columns, pairs, last, y_pitch);
    case 4: return add_tile<4, kVectors>(x + m, b, columns, pairs, last, y_pitch);
    case 5: return add_tile<5, kVectors>(x + m, b, columns, pairs, last, y_pitch);
    default: return;
  }
}

void add_pairs(const std::int16_t* const* x, std::int64_t count, const std::int16_t* b,
               std::int64_t columns, std::int64_t pairs, std::int32_t* y, std::int64_t y_pitch) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Sums()));
  std::int64_t n = 0;
  for (; n + kTileVectors * lanes <= columns; n += kTileVectors * lanes)
    add_columns<kTileVectors>(x, count, b + 2 * n, columns, pairs, y + n, y_pitch);
  for (; n < columns; n += lanes)
    add_columns<1>(x, count, b + 2 * n, columns, pairs, y + n, y_pitch);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(widen_vectors);
HWY_EXPORT(multiply_vectors);
HWY_EXPORT(add_pairs);

void widen_bytes(DType type, const std::byte* from, std::int64_t stride, std::int64_t count,
                 std::int16_t* to) {
  HWY_DYNAMIC_DISPATCH(widen_vectors)(type, from, stride, count, to);
}

void add_pair_products(const std::int16_t* const* x, std::int64_t count, const std::int16_t* b,
                       std::int64_t columns, std::int64_t pairs, std::int32_t* y,
                       std::int64_t y_pitch) {
  HWY_DYNAMIC_DISPATCH(add_pairs)(x, count, b, columns, pairs, y, y_pitch);
}

void multiply_channels(DType type, const std::byte* const* x, const std::int16_t* const* w,
                       std::int64_t taps, std::int64_t count, std::int32_t* y) {
  HWY_DYNAMIC_DISPATCH(multiply_vectors)(type, x, w, taps, count, y);
}

}  // namespace sinter::runtime::cpu
#endif
