// Scales and zero points of groups of weights.
#pragma once

#include <cstdint>
#include <span>

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
  /// each error counts for. The same on every processor.
  GroupFit fit(std::span<const float> w, std::span<const float> importance = {}) const;
  /// The integers nearest to `w`, as many as there are of `numbers`.
  void round(std::span<const float> w, const GroupFit& fit, std::span<std::int8_t> numbers) const;

  /// The integers that there are.
  float low() const { return low_; }
  float high() const { return high_; }
  bool symmetric() const { return symmetric_; }

 private:
  GroupFit with_zero(float smallest, float largest) const;

  bool symmetric_;
  float low_, high_;
  int steps_;
};

}  // namespace sinter::fusion
