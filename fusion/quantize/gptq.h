// Scales and zero points of groups of weights, and rounding that makes up for the error of each
// number with the numbers rounded after it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A scale and a zero point.
struct GroupFit {
  float scale = 0, zero = 0;
};

/// To nearest, halves to even, for |x| < 2^22: additions are vectorised where a call is not.
inline float rounded(float x) {
  constexpr float kShift = 12582912.0F;
  return (x + kShift) - kShift;
}

class GroupFitter {
 public:
  explicit GroupFitter(const WeightOptions& options)
      : symmetric_(options.symmetric),
        // -2^(bits-1) is left out where there is no zero point: -x is then as near as x.
        low_(static_cast<float>(options.symmetric ? 1 - (1 << (options.bits - 1))
                                                  : -(1 << (options.bits - 1)))),
        high_(static_cast<float>((1 << (options.bits - 1)) - 1)),
        steps_(options.bits == 4 ? 16 : 4) {}

  /// With integers q the scale sum w q / sum q^2 leaves the least of sum (w - s q)^2, and takes
  /// (sum w q)^2 / sum q^2 away from sum w^2: the range that takes most is the best. Rounding with
  /// that scale again can only leave less. `importance`, if it is not empty, is what the square of
  /// each error counts for.
  GroupFit fit(std::span<const float> w, std::span<const float> importance = {}) const {
    const auto [low, high] = std::minmax_element(w.begin(), w.end());
    const float smallest = std::min(*low, 0.0F), largest = std::max(*high, 0.0F);
    GroupFit best;
    double most = 0;
    for (int step = 0; step < steps_; ++step) {
      const float part = 1.0F - 0.025F * static_cast<float>(step);
      const GroupFit next = symmetric_ ? GroupFit{part * std::max(-smallest, largest) / high_, 0}
                                       : with_zero(part * smallest, part * largest);
      if (!(next.scale > 0)) continue;
      const auto [products, squares] =
          importance.empty() ? sums(w, next, [](std::size_t) { return 1.0F; })
                             : sums(w, next, [&](std::size_t i) { return importance[i]; });
      if (squares == 0 || products * products / squares <= most) continue;
      most = products * products / squares;
      best = {static_cast<float>(products / squares), next.zero};
    }
    return best;
  }

  /// The integers that there are.
  float low() const { return low_; }
  float high() const { return high_; }
  bool symmetric() const { return symmetric_; }

  /// The integer nearest to w.
  float number(float w, const GroupFit& fit) const {
    return fit.scale == 0 ? 0.0F : number(w, 1.0F / fit.scale, fit.zero);
  }

 private:
  float number(float w, float inverse, float zero) const {
    return rounded(std::min(std::max(w * inverse + zero, low_), high_));
  }

  /// Zero stays a number of its own: padding and pruned weights are exact.
  GroupFit with_zero(float smallest, float largest) const {
    const float scale = (largest - smallest) / (high_ - low_);
    if (!(scale > 0)) return {};
    return {scale, std::clamp(std::nearbyint(low_ - smallest / scale), low_, high_)};
  }

  /// sum w q and sum q^2, each times its weight, of the integers q less the zero point.
  template <class WeightAt>
  std::pair<double, double> sums(std::span<const float> w, const GroupFit& fit,
                                 const WeightAt& weight_at) const {
    constexpr std::size_t kLanes = 8;
    const float inverse = 1.0F / fit.scale;
    std::array<double, kLanes> products{}, squares{};
    std::size_t i = 0;
    for (; i + kLanes <= w.size(); i += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        const float x = w[i + l], q = number(x, inverse, fit.zero) - fit.zero,
                    weighted = weight_at(i + l) * q;
        products[l] += static_cast<double>(x) * static_cast<double>(weighted);
        squares[l] += static_cast<double>(q * weighted);
      }
    }
    for (; i < w.size(); ++i) {
      const float q = number(w[i], inverse, fit.zero) - fit.zero, weighted = weight_at(i) * q;
      products[0] += static_cast<double>(w[i]) * static_cast<double>(weighted);
      squares[0] += static_cast<double>(q * weighted);
    }
    return {std::accumulate(products.begin(), products.end(), 0.0),
            std::accumulate(squares.begin(), squares.end(), 0.0)};
  }

  bool symmetric_;
  float low_, high_;
  int steps_;
};

/// Integers q [n, k], and scales and zero points [n, groups]: w = (q - zero) * scale.
struct RoundedWeights {
  std::vector<std::int8_t> values;
  std::vector<float> scales, zeros;
};

/// Weights w [n, k] in groups of `width` along k, rounded so that the error of what they make of
/// inputs x, of which `moments` [k, k] is the mean of x'x, is small: not |w - v| but
/// (w - v) moments (w - v)' for each row (Frantar et al., "GPTQ", 2022). Columns are rounded one
/// after the other, the error of each is taken out of those not yet rounded as least squares would,
/// and a group gets its scale when its turn comes. Then groups are gone over again: scale and zero
/// point are the best for the integers found, each integer the best beside all others, which can
/// only make the error smaller. Zero points are any number. Throws Error(kUsage) if the moments are
/// not those of finite inputs.
RoundedWeights round_compensated(std::span<const float> weights, std::int64_t n, std::int64_t k,
                                 std::int64_t width, const GroupFitter& fitter,
                                 std::span<const float> moments);

}  // namespace sinter::fusion
