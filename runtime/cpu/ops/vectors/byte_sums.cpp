// SPDX-License-Identifier: Apache-2.0
// Sums of 8-bit integers, which are widened in registers.
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

/// Adds all rows to the sums of kVectors vectors of columns.
template <class Byte, int kVectors>
HWY_INLINE void sum_block(const Byte* from, std::int64_t row_stride, std::int64_t rows,
                          std::int32_t* sums) {
  const SumTag d;
  const hn::Rebind<Byte, SumTag> bytes;
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<SumTag> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, sums + v * lanes);
  for (std::int64_t r = 0; r < rows; ++r, from += row_stride)
    for (int v = 0; v < kVectors; ++v)
      sum[v] = hn::Add(sum[v], hn::PromoteTo(d, hn::LoadU(bytes, from + v * lanes)));
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + v * lanes);
}

template <class Byte>
void sum_columns(const ReduceArgs& t) {
  auto* sums = static_cast<std::int32_t*>(t.accumulators);
  const auto* from = static_cast<const Byte*>(t.value.data);
  const std::int64_t step = t.value.per_column ? 1 : 0;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(SumTag()));
  std::int64_t c = 0;
  for (; step == 1 && c + 4 * lanes <= t.cols; c += 4 * lanes)
    sum_block<Byte, 4>(from + c, t.value.row_stride, t.rows, sums + c);
  for (; step == 1 && c + lanes <= t.cols; c += lanes)
    sum_block<Byte, 1>(from + c, t.value.row_stride, t.rows, sums + c);
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
