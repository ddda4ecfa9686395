// SPDX-License-Identifier: Apache-2.0
// Sums of 8-bit integers, which are widened in registers.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/vectors/byte_sums.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using SumTag = hn::ScalableTag<std::int32_t>;

#if HWY_TARGET != HWY_SCALAR
/// Adds rows to the sums of `kVectors` vectors of columns. 16 bits hold the sum of kRows bytes.
template <class Byte, int kVectors>
HWY_INLINE void sum_block(const Byte* from, std::int64_t row_stride, std::int64_t rows,
                          std::int32_t* sums) {
  using Half = std::conditional_t<std::is_signed_v<Byte>, std::int16_t, std::uint16_t>;
  constexpr std::int64_t kRows = 255;
  const SumTag d;
  const hn::ScalableTag<Half> halves;
  const hn::Rebind<Byte, decltype(halves)> bytes;
  const hn::Half<decltype(halves)> quarter;
  const std::size_t lanes = hn::Lanes(d), wide = hn::Lanes(halves);
  for (std::int64_t done = 0; done < rows; done += kRows) {
    const std::int64_t end = std::min(rows, done + kRows);
    hn::Vec<decltype(halves)> sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(halves);
    for (std::int64_t r = done; r < end; ++r, from += row_stride)
      for (int v = 0; v < kVectors; ++v)
        sum[v] = hn::Add(sum[v], hn::PromoteTo(halves, hn::LoadU(bytes, from + v * wide)));
    for (int v = 0; v < kVectors; ++v) {
      std::int32_t* const to = sums + v * wide;
      hn::StoreU(hn::Add(hn::LoadU(d, to), hn::PromoteTo(d, hn::LowerHalf(quarter, sum[v]))), d,
                 to);
      hn::StoreU(
          hn::Add(hn::LoadU(d, to + lanes), hn::PromoteTo(d, hn::UpperHalf(quarter, sum[v]))), d,
          to + lanes);
    }
  }
}

#endif

template <class Byte>
void sum_columns(const ReduceArgs& t) {
  auto* sums = static_cast<std::int32_t*>(t.accumulators);
  const auto* from = static_cast<const Byte*>(t.value.data);
  const std::int64_t step = t.value.per_column ? 1 : 0;
  std::int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const auto wide = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::int16_t>()));
  for (; step == 1 && c + 4 * wide <= t.cols; c += 4 * wide)
    sum_block<Byte, 4>(from + c, t.value.row_stride, t.rows, sums + c);
  for (; step == 1 && c + wide <= t.cols; c += wide)
    sum_block<Byte, 1>(from + c, t.value.row_stride, t.rows, sums + c);
#endif
  for (; c < t.cols; ++c)
    for (std::int64_t r = 0; r < t.rows; ++r) sums[c] += from[r * t.value.row_stride + c * step];
}

ReduceColumns find_sums(DType type) {
  return type == DType::kInt8 ? sum_columns<std::int8_t> : sum_columns<std::uint8_t>;
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_sums);

ReduceColumns find_byte_sums(DType type) { return HWY_DYNAMIC_DISPATCH(find_sums)(type); }

}  // namespace sinter::runtime::cpu
#endif
