// Rounding that makes up for the error of each number with the numbers rounded after it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fusion/quantize/group_fit.h"

namespace sinter::fusion {

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

/// The same with scales that are given (`scales` [n, groups], above 0), and numbers of `type`,
/// kInt8 (without -128) or a float of 8 bits; without the second round. Returns the numbers [n, k]
/// before their scales.
std::vector<float> round_compensated(std::span<const float> weights, std::int64_t n, std::int64_t k,
                                     std::int64_t width, DType type, std::span<const float> scales,
                                     std::span<const float> moments);

}  // namespace sinter::fusion
