// SPDX-License-Identifier: Apache-2.0
// Pointwise operators on sizes instead of numbers, also where a model computes sizes with floats:
// ceil(height / 2.0) * 2.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <sinter/dtype.h>

#include "ir/dim/dim.h"

namespace sinter::frontend {

/// One element of the ir operator `op` on the sizes `x` of type `from` (booleans are 0 and 1), with
/// a result of type `to`; nothing if the operator is not size arithmetic or its result is not one
/// expression for all values in `ranges`. Throws Error(kInvalidModel) for overflow.
std::optional<ir::Dim> size_arithmetic(std::string_view op, const std::vector<ir::Dim>& x,
                                       DType from, DType to, const ir::Ranges& ranges);

/// False for an expression too large to be a size that a model means: squaring a size again and
/// again grows it without end.
bool is_manageable(const ir::Dim& dim);

/// A size divided by a positive number, as a float holds it where neither is large.
struct SizeRatio {
  ir::Dim numerator;
  std::int64_t denominator = 1;
};

/// `value` if it is a fraction of small numbers whose denominator is a power of two: those that
/// floats hold without rounding.
std::optional<SizeRatio> ratio_of(double value);

/// One element of the ir operator `op` on floats; nothing if it is no arithmetic of sizes. Division
/// rounds, but never across an integer, so that Floor and Ceil of it are exact.
std::optional<SizeRatio> ratio_arithmetic(std::string_view op, const std::vector<SizeRatio>& x,
                                          const ir::Ranges& ranges);

/// The integer that Cast makes of it, which truncates; nothing for one that may be negative.
std::optional<ir::Dim> truncated(const SizeRatio& x, const ir::Ranges& ranges);

}  // namespace sinter::frontend
