// SPDX-License-Identifier: Apache-2.0
// Compiled for several instruction sets. No contraction to FMAs (-ffp-contract=off), and eight
// partial sums for any vector width: all give the same bits.
#include "fusion/scales/rounding/group_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fusion/scales/rounding/group_fit.cpp"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h (Highway).
#include <hwy/highway.h>

#ifndef SINTER_FUSION_QUANTIZE_GROUP_FIT_ONCE
#define SINTER_FUSION_QUANTIZE_GROUP_FIT_ONCE
namespace sinter::fusion {

constexpr std::size_t kLanes = 8;   // partial sums
constexpr std::size_t kAtOnce = 4;  // candidates with independent sums
constexpr std::size_t kMostSteps = 16;

/// Scales to try, as inverses. All have the same range of integers.
struct TriedScales {
  std::size_t count = 0;
  float low = 0, high = 0;
  std::array<float, kMostSteps> inverse{}, zero{};
};
/// sum w q and sum q^2, weighted by importance, for integers q minus the zero point.
struct Sums {
  std::array<double, kMostSteps> products{}, squares{};
};
struct Extremes {
  float smallest = 0, largest = 0;  // 0 is included
};

}  // namespace sinter::fusion
#endif

HWY_BEFORE_NAMESPACE();
namespace sinter::fusion {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::CappedTag<double, kLanes>;
using D32 = hn::Rebind<float, D64>;  // equal lane count
using V64 = hn::VFromD<D64>;
using V32 = hn::VFromD<D32>;
constexpr std::size_t kSums = kLanes / hn::MaxLanes(D64());

HWY_INLINE V32 number(V32 w, V32 inverse, V32 zero, V32 low, V32 high) {
  const V32 shift = hn::Set(D32(), 12582912.0F);
  const V32 exact = hn::Min(hn::Max(hn::Add(hn::Mul(w, inverse), zero), low), high);
  return hn::Sub(hn::Add(exact, shift), shift);
}

/// For kAtOnce candidates starting at `first`.
template <bool kWeighted>
void add_sums(std::span<const float> w, const float* importance, const TriedScales& tried,
              std::size_t first, Sums& sums) {
  const D32 d;
  const D64 wide;
  const std::size_t lanes = hn::Lanes(d);
  const V32 low = hn::Set(d, tried.low), high = hn::Set(d, tried.high);
  V32 inverse[kAtOnce], zero[kAtOnce];
  V64 products[kAtOnce][kSums], squares[kAtOnce][kSums];
  for (std::size_t c = 0; c < kAtOnce; ++c) {
    inverse[c] = hn::Set(d, tried.inverse[first + c]);
    zero[c] = hn::Set(d, tried.zero[first + c]);
    for (std::size_t s = 0; s < kSums; ++s) products[c][s] = squares[c][s] = hn::Zero(wide);
  }
  std::size_t i = 0;
  for (; i + kLanes <= w.size(); i += kLanes) {
    for (std::size_t s = 0; s < kSums; ++s) {
      const std::size_t at = i + s * lanes;
      const V32 x = hn::LoadU(d, w.data() + at);
      const V64 exact = hn::PromoteTo(wide, x);
      for (std::size_t c = 0; c < kAtOnce; ++c) {
        const V32 q = hn::Sub(number(x, inverse[c], zero[c], low, high), zero[c]);
        V32 weighted = q;
        if constexpr (kWeighted) weighted = hn::Mul(hn::LoadU(d, importance + at), q);
        // The product of two float32 is exact in float64.
        products[c][s] = hn::MulAdd(exact, hn::PromoteTo(wide, weighted), products[c][s]);
        squares[c][s] = hn::Add(squares[c][s], hn::PromoteTo(wide, hn::Mul(q, weighted)));
      }
    }
  }
  for (std::size_t c = 0; c < kAtOnce; ++c) {
    double product[kLanes], square[kLanes];
    for (std::size_t s = 0; s < kSums; ++s) {
      hn::StoreU(products[c][s], wide, product + s * lanes);
      hn::StoreU(squares[c][s], wide, square + s * lanes);
    }
    const float by = tried.inverse[first + c], from = tried.zero[first + c];
    for (std::size_t at = i; at < w.size(); ++at) {
      const float exact = std::min(std::max(w[at] * by + from, tried.low), tried.high);
      const float q = rounded(exact) - from, weighted = kWeighted ? importance[at] * q : q;
      product[0] += static_cast<double>(w[at]) * static_cast<double>(weighted);
      square[0] += static_cast<double>(q * weighted);
    }
    sums.products[first + c] = std::accumulate(product, product + kLanes, 0.0);
    sums.squares[first + c] = std::accumulate(square, square + kLanes, 0.0);
  }
}

Sums sums_of(std::span<const float> w, const float* importance, const TriedScales& tried) {
  Sums sums;
  for (std::size_t first = 0; first < tried.count; first += kAtOnce) {
    if (importance != nullptr)
      add_sums<true>(w, importance, tried, first, sums);
    else
      add_sums<false>(w, importance, tried, first, sums);
  }
  return sums;
}

Extremes extremes_of(std::span<const float> w) {
  const hn::CappedTag<float, kLanes> d;
  const std::size_t lanes = hn::Lanes(d);
  auto least = hn::Zero(d), most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= w.size(); i += lanes) {
    const auto x = hn::LoadU(d, w.data() + i);
    least = hn::Min(least, x);
    most = hn::Max(most, x);
  }
  Extremes result{hn::GetLane(hn::MinOfLanes(d, least)), hn::GetLane(hn::MaxOfLanes(d, most))};
  for (; i < w.size(); ++i) {
    result.smallest = std::min(result.smallest, w[i]);
    result.largest = std::max(result.largest, w[i]);
  }
  return result;
}

/// Uses the first of `tried`.
void round_all(std::span<const float> w, const TriedScales& tried, std::int8_t* numbers) {
  const D32 d;
  const std::size_t lanes = hn::Lanes(d);
  const hn::RebindToSigned<D32> integers;
  const hn::Rebind<std::int8_t, D32> bytes;
  const V32 inverse = hn::Set(d, tried.inverse[0]), zero = hn::Set(d, tried.zero[0]),
            low = hn::Set(d, tried.low), high = hn::Set(d, tried.high);
  std::size_t i = 0;
  for (; i + lanes <= w.size(); i += lanes) {
    const V32 q = number(hn::LoadU(d, w.data() + i), inverse, zero, low, high);
    hn::StoreU(hn::DemoteTo(bytes, hn::ConvertTo(integers, q)), bytes, numbers + i);
  }
  for (; i < w.size(); ++i)
    numbers[i] = static_cast<std::int8_t>(rounded(
        std::min(std::max(w[i] * tried.inverse[0] + tried.zero[0], tried.low), tried.high)));
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::fusion
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::fusion {
namespace {

HWY_EXPORT(sums_of);
HWY_EXPORT(extremes_of);
HWY_EXPORT(round_all);

}  // namespace

GroupFit GroupFitter::fit(std::span<const float> w, std::span<const float> importance) const {
  const auto [smallest, largest] = HWY_DYNAMIC_DISPATCH(extremes_of)(w);
  TriedScales tried{0, low_, high_, {}, {}};
  for (int step = 0; step < steps_; ++step) {
    const float part = 1.0F - 0.025F * static_cast<float>(step);
    const GroupFit next = symmetric_ ? GroupFit{part * std::max(-smallest, largest) / high_, 0}
                                     : with_zero(part * smallest, part * largest);
    const float inverse = 1.0F / next.scale;
    if (!(next.scale > 0) || !std::isfinite(inverse)) continue;
    tried.inverse[tried.count] = inverse;
    tried.zero[tried.count++] = next.zero;
  }
  if (tried.count == 0) return {};
  const Sums sums =
      HWY_DYNAMIC_DISPATCH(sums_of)(w, importance.empty() ? nullptr : importance.data(), tried);
  GroupFit best;
  double most = 0;
  for (std::size_t c = 0; c < tried.count; ++c) {
    const double products = sums.products[c], squares = sums.squares[c];
    if (squares == 0 || products * products / squares <= most) continue;
    most = products * products / squares;
    best = {static_cast<float>(products / squares), tried.zero[c]};
  }
  return best;
}

void GroupFitter::round(std::span<const float> w, const GroupFit& fit,
                        std::span<std::int8_t> numbers) const {
  const float inverse = fit.scale == 0 ? 0.0F : 1.0F / fit.scale;
  if (fit.scale == 0 || !std::isfinite(inverse)) {
    std::ranges::fill(numbers, std::int8_t{0});
    return;
  }
  TriedScales one{1, low_, high_, {inverse}, {fit.zero}};
  HWY_DYNAMIC_DISPATCH(round_all)(w, one, numbers.data());
}

/// Zero is represented exactly: padding and pruned weights are exact.
GroupFit GroupFitter::with_zero(float smallest, float largest) const {
  const float scale = (largest - smallest) / (high_ - low_);
  if (!(scale > 0)) return {};
  return {scale, std::clamp(std::nearbyint(low_ - smallest / scale), low_, high_)};
}

}  // namespace sinter::fusion
#endif
