// Pointwise operators on sizes instead of numbers.
#pragma once

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

}  // namespace sinter::frontend
