// SPDX-License-Identifier: Apache-2.0
// GPTQ: compensates the rounding error of each number by the numbers rounded after it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fusion/scales/rounding/group_fit.h"

namespace sinter::fusion {

/// Integers q [n, k] with scales and zero points [n, groups]: w = (q - zero) * scale.
struct RoundedWeights {
  std::vector<std::int8_t> values;
  std::vector<float> scales, zeros;
};

/// Rounds weights w [n, k], in groups of `width` along k, for a small error on inputs x; `moments`
/// [k, k] is the mean of x'x. Minimizes not |w - v| but (w - v) moments (w - v)' for each row
/// (Frantar et al., "GPTQ", 2022). Columns are rounded in sequence; the error of each is removed
/// from the remaining ones by least squares, and a group gets its scale when it is reached. Then
/// sweeps over groups alternate the best scale and zero point for the integers, and the best value
/// of each integer given all others, which never increases the error. Zero points are any real
/// number. Throws Error(kUsage) if the moments are not finite.
RoundedWeights round_compensated(std::span<const float> weights, std::int64_t n, std::int64_t k,
                                 std::int64_t width, const GroupFitter& fitter,
                                 std::span<const float> moments);

/// The same with given scales (`scales` [n, groups], above 0) and numbers of `type`, kInt8 (without
/// -128) or an 8-bit float; without sweeps. Returns the numbers [n, k] before scaling.
std::vector<float> round_compensated(std::span<const float> weights, std::int64_t n, std::int64_t k,
                                     std::int64_t width, DType type, std::span<const float> scales,
                                     std::span<const float> moments);

}  // namespace sinter::fusion
