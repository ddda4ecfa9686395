// SPDX-License-Identifier: Apache-2.0
// Evaluates single shape expressions of a plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Evaluates expression `index` alone. Symbols on which it does not depend may have any value.
/// Throws as evaluate_expressions.
std::int64_t evaluate_expression(const fb::PlanT& plan, std::uint32_t index,
                                 std::span<const std::int64_t> symbols);

/// The plan's symbols as text, "batch=1, sequence=64"; empty if there are none.
std::string describe_dimensions(const fb::PlanT& plan, std::span<const std::int64_t> symbols);

/// Symbols on which expression `index` depends, sorted. Operands must precede their expression.
std::vector<std::uint32_t> symbols_of(const fb::PlanT& plan, std::uint32_t index);

}  // namespace sinter::plan
