// SPDX-License-Identifier: Apache-2.0
// Pointwise operators on sizes instead of numbers, also for models that compute sizes with floats:
// ceil(height / 2.0) * 2.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <sinter/dtype.h>

#include "ir/dim/dim.h"

namespace sinter::frontend {

/// Applies the ir operator `op` to the sizes `x` of type `from` (booleans are 0 and 1), with a
/// result of type `to`. Nullopt if the operator is no size arithmetic, or if no single expression
/// gives the result for all values in `ranges`. Throws Error(kInvalidModel) for overflow.
std::optional<ir::Dim> size_arithmetic(std::string_view op, const std::vector<ir::Dim>& x,
                                       DType from, DType to, const ir::Ranges& ranges);

/// False for an expression that is too large for a real size: repeated squaring grows it without
/// limit.
bool is_manageable(const ir::Dim& dim);

/// A size divided by a positive number, which a float represents exactly if neither is large.
struct SizeRatio {
  ir::Dim numerator;
  std::int64_t denominator = 1;
};

/// `value` as a fraction of small numbers with a power of two as denominator, which floats
/// represent exactly; nullopt for others.
std::optional<SizeRatio> ratio_of(double value);

/// Applies the ir operator `op` to ratios; nullopt if it is no size arithmetic. Division rounds,
/// but never across an integer, so that Floor and Ceil of it are exact.
std::optional<SizeRatio> ratio_arithmetic(std::string_view op, const std::vector<SizeRatio>& x,
                                          const ir::Ranges& ranges);

/// The integer to which Cast truncates the ratio; nullopt if it may be negative.
std::optional<ir::Dim> truncated(const SizeRatio& x, const ir::Ranges& ranges);

}  // namespace sinter::frontend
