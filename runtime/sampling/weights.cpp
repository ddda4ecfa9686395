// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/weights.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/sampling/weights.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::sampling {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Handles full vectors only and returns the number of values done. 0 for vectors below 64 bytes,
/// where scalar table lookups are faster.
std::size_t find_weights([[maybe_unused]] const float* values, [[maybe_unused]] std::size_t count,
                         [[maybe_unused]] float most, [[maybe_unused]] float rate,
                         [[maybe_unused]] float unit, [[maybe_unused]] float last,
                         [[maybe_unused]] const std::uint64_t* table,
                         [[maybe_unused]] std::uint64_t* weights,
                         [[maybe_unused]] std::int32_t* buckets) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  using Exp = Exponential;
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> f;
  const hn::Rebind<std::int32_t, decltype(d)> i32;
  const hn::Rebind<std::uint64_t, decltype(d)> u64;
  const hn::Rebind<std::int64_t, decltype(d)> i64;
  const auto top = hn::Set(f, most), lowest = hn::Set(f, Weights::kLeastScore);
  const auto shift = hn::Set(d, Exp::kShift), whole = hn::Set(d, 0x1p52);
  const std::size_t lanes = hn::Lanes(d), end = count - count % lanes;
  for (std::size_t i = 0; i < end; i += lanes) {
    const auto value = hn::LoadU(f, values + i);
    const auto score = hn::IfThenElse(hn::Eq(value, top), hn::Zero(f),
                                      hn::Mul(hn::Sub(value, top), hn::Set(f, rate)));
    const auto place = hn::Min(hn::Mul(score, hn::Set(f, unit)), hn::Set(f, last));
    hn::StoreU(hn::ConvertTo(i32, place), i32, buckets + i);
    const auto scaled = hn::Mul(hn::PromoteTo(d, hn::Max(score, lowest)), hn::Set(d, Exp::kScale));
    const auto shifted = hn::Add(scaled, shift);
    const auto step = hn::BitCast(i64, shifted);
    const auto rest = hn::Sub(scaled, hn::Sub(shifted, shift));
    const auto power = hn::Add(hn::GatherIndex(u64, table, hn::And(step, hn::Set(i64, 31))),
                               hn::ShiftLeft<47>(hn::BitCast(u64, step)));
    const auto high = hn::Mul(hn::Add(hn::Mul(hn::Set(d, Exp::kA), rest), hn::Set(d, Exp::kB)),
                              hn::Mul(rest, rest));
    const auto low = hn::Add(hn::Mul(hn::Set(d, Exp::kC), rest), hn::Set(d, 1.0));
    const auto e = hn::DemoteTo(f, hn::Mul(hn::Add(high, low), hn::BitCast(d, power)));
    // Adding 2^52 puts an integer up to 2^40 into the low mantissa bits.
    const auto units =
        hn::IfThenElseZero(hn::Ge(score, lowest), hn::Floor(hn::Mul(e, hn::Set(f, 0x1p40F))));
    const auto bits = hn::BitCast(u64, hn::Add(hn::PromoteTo(d, units), whole));
    hn::StoreU(hn::And(bits, hn::Set(u64, (std::uint64_t{1} << 52) - 1)), u64, weights + i);
  }
  return end;
#else
  return 0;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::sampling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::sampling {

HWY_EXPORT(find_weights);

const Exponential& Exponential::instance() {
  static const Exponential one = [] {
    Exponential made{};
    for (std::size_t i = 0; i < made.table.size(); ++i)
      made.table[i] = std::bit_cast<std::uint64_t>(std::exp2(static_cast<double>(i) / kSteps)) -
                      (static_cast<std::uint64_t>(i) << 47);
    return made;
  }();
  return one;
}

void Weights::find(std::span<const float> values, float unit, float last, std::uint64_t* weights,
                   std::int32_t* buckets) const {
  const std::size_t first =
      HWY_DYNAMIC_DISPATCH(find_weights)(values.data(), values.size(), most_, rate_, unit, last,
                                         exponential_.table.data(), weights, buckets);
  for (std::size_t i = first; i < values.size(); ++i) {
    weights[i] = of(values[i]);
    buckets[i] = static_cast<std::int32_t>(std::min(score_of(values[i]) * unit, last));
  }
}

}  // namespace sinter::sampling
#endif
