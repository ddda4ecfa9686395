// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: number n of a sequence is a function of its seed and n.
#pragma once

#include <cmath>
#include <cstdint>

namespace sinter::sampling {

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators"). Number n of a
/// seed's sequence is mix(seed + n * kGamma), n starting at 1.
inline constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15;

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// The seed of draw number `draw`, counted from 0.
inline std::uint64_t seed_of_draw(std::uint64_t seed, std::uint64_t draw) {
  return mix(seed + (draw + 1) * kGamma);
}

/// The random numbers of one draw; SampleTokens (ir/ops/sampling.cpp) is defined by the same
/// numbers.
class DrawNumbers {
 public:
  DrawNumbers(std::uint64_t seed, std::uint64_t draw) : DrawNumbers(seed_of_draw(seed, draw)) {}
  explicit DrawNumbers(std::uint64_t seed_of_draw) : seed_(seed_of_draw) {}

  /// A multiple of 2^-53 in (0, 1); `index` is a token's id, or -1 for the draw's own number.
  double uniform(std::int64_t index) const {
    const std::uint64_t bits = mix(seed_ + static_cast<std::uint64_t>(index + 1) * kGamma);
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  }
  /// Gumbel noise: the argmax of scores plus noise is a draw from the scores' softmax.
  double gumbel(std::int64_t index) const { return -std::log(-std::log1p(-uniform(index))); }

 private:
  std::uint64_t seed_;
};

/// The seed of one sample of a request; sample 0 has the request's seed.
inline std::uint64_t seed_of_sample(std::uint64_t seed, int sample) {
  return sample == 0 ? seed : mix(seed ^ mix(static_cast<std::uint64_t>(sample)));
}

}  // namespace sinter::sampling
