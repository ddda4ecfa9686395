// SPDX-License-Identifier: Apache-2.0
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

/// Rounds to nearest, ties to even, for |x| < 2^22: additions vectorize, a call would not.
inline float rounded(float x) {
  constexpr float kShift = 12582912.0F;
  return (x + kShift) - kShift;
}

class GroupFitter {
 public:
  explicit GroupFitter(const WeightOptions& options)
      : symmetric_(options.symmetric),
        // Without a zero point -2^(bits-1) is not used: -x has the same error as x.
        low_(static_cast<float>(options.symmetric ? 1 - (1 << (options.bits - 1))
                                                  : -(1 << (options.bits - 1)))),
        high_(static_cast<float>((1 << (options.bits - 1)) - 1)),
        steps_(options.bits == 4 ? 16 : 4) {}

  /// For integers q, the scale sum w q / sum q^2 minimizes sum (w - s q)^2 and reduces it by (sum w
  /// q)^2 / sum q^2: the range with the largest reduction wins. Rounding again with that scale can
  /// only improve it. `importance`, if not empty, weights each squared error. The same on every
  /// processor.
  GroupFit fit(std::span<const float> w, std::span<const float> importance = {}) const;
  /// The integers nearest to `w`, one for each of `numbers`.
  void round(std::span<const float> w, const GroupFit& fit, std::span<std::int8_t> numbers) const;

  /// The range of the integers.
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
