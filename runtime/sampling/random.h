// SPDX-License-Identifier: Apache-2.0
// Random numbers by index: number n of a sequence is a function of its seed and n.
#pragma once

#include <cmath>
#include <cstdint>

namespace sinter::sampling {

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators"): number n of
/// the sequence of a seed is mix(seed + n * kGamma), n from 1 on.
inline constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15;

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// The seed of one draw: `draw` counts from 0.
inline std::uint64_t seed_of_draw(std::uint64_t seed, std::uint64_t draw) {
  return mix(seed + (draw + 1) * kGamma);
}

/// The random numbers of one draw. That is also the definition of SampleTokens
/// (ir/ops/sampling.cpp).
class DrawNumbers {
 public:
  DrawNumbers(std::uint64_t seed, std::uint64_t draw) : DrawNumbers(seed_of_draw(seed, draw)) {}
  explicit DrawNumbers(std::uint64_t seed_of_draw) : seed_(seed_of_draw) {}

  /// In (0, 1), a multiple of 2^-53; `index` is a token's id, or -1 for the number beside them.
  double uniform(std::int64_t index) const {
    const std::uint64_t bits = mix(seed_ + static_cast<std::uint64_t>(index + 1) * kGamma);
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  }
  /// Gumbel noise: argmax of scores plus noise draws from the scores' softmax.
  double gumbel(std::int64_t index) const { return -std::log(-std::log1p(-uniform(index))); }

 private:
  std::uint64_t seed_;
};

/// The seed of a request's sample; its number 0 has the request's own.
inline std::uint64_t seed_of_sample(std::uint64_t seed, int sample) {
  return sample == 0 ? seed : mix(seed ^ mix(static_cast<std::uint64_t>(sample)));
}

}  // namespace sinter::sampling
