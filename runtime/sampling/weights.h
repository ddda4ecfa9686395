// SPDX-License-Identifier: Apache-2.0
// Weights of top-p: e^score in multiples of 2^-40. They take most of a draw's time for a large
// vocabulary.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sinter::sampling {

/// e^x in float32 for x <= 0, bit-equal to glibc's, without a call. Method and constants are those
/// of Arm's Optimized Routines: 2^(k / 32) from a table, times a polynomial.
struct Exponential {
  static constexpr double kSteps = 32, kShift = 0x1.8p+52, kScale = 0x1.71547652b82fep+0 * kSteps;
  static constexpr double kA = 0x1.c6af84b912394p-5 / (kSteps * kSteps * kSteps),
                          kB = 0x1.ebfce50fac4f3p-3 / (kSteps * kSteps),
                          kC = 0x1.62e42ff0c52d6p-1 / kSteps;

  alignas(64) std::array<std::uint64_t, 32> table;  // the bits of 2^(i / 32), minus i << 47

  static const Exponential& instance();

  float operator()(float x) const {
    const double scaled = kScale * static_cast<double>(x);
    const double shifted = scaled + kShift;
    const auto step = std::bit_cast<std::uint64_t>(shifted);
    const double rest = scaled - (shifted - kShift);
    const double power = std::bit_cast<double>(table[step % table.size()] + (step << 47));
    return static_cast<float>(((kA * rest + kB) * (rest * rest) + (kC * rest + 1)) * power);
  }
};

/// Weights of a row's values, whose maximum is `most`, at a temperature.
class Weights {
 public:
  Weights(float most, double temperature)
      : most_(most),
        // Nonzero, because 0 times infinity is NaN.
        rate_(std::max(static_cast<float>(1 / temperature), std::numeric_limits<float>::min())) {}

  float score_of(float value) const { return value == most_ ? 0 : (value - most_) * rate_; }
  std::uint64_t of(float value) const {
    const float score = score_of(value);
    if (score < kLeastScore) return 0;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(exponential_(score) * 0x1p40F));
  }

  /// Computes each value's weight and the bucket of its score: score x `unit`, at most `last`.
  void find(std::span<const float> values, float unit, float last, std::uint64_t* weights,
            std::int32_t* buckets) const;

  static constexpr float kLeastScore = -28;  // lower scores have weight 0

 private:
  float most_, rate_;
  const Exponential& exponential_ = Exponential::instance();
};

}  // namespace sinter::sampling
