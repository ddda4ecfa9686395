// SPDX-License-Identifier: Apache-2.0
// Derives the values of a plan's symbols from input shapes, with all checks of user errors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

using InputShapes = std::vector<std::optional<std::vector<std::int64_t>>>;  // by input binding
/// Values, or token counts, of the inputs that define a symbol (Symbol.value_of, Symbol.tokens_of),
/// by input binding.
using InputValues = std::vector<std::optional<std::int64_t>>;

/// The symbol that is the value, or the token count, of input `index`; nullopt if there is none.
std::optional<std::size_t> symbol_of_value(const fb::PlanT& plan, std::size_t index);

/// The maximum token count of a mask of this shape; nullopt if the shape is unknown.
std::optional<std::int64_t> most_tokens(const std::optional<std::vector<std::int64_t>>& shape);

/// Throws Error(kUsage) unless `shape` has the rank of input `index` and every dimension is the
/// plan's or in its range.
void check_input_shape(const fb::PlanT& plan, std::size_t index,
                       const std::vector<std::int64_t>& shape);

/// Values of the plan's symbols. Throws Error(kUsage) naming both inputs if two shapes contradict
/// each other, or the missing inputs if a symbol stays unknown, or if a value is out of range.
std::vector<std::int64_t> bind_symbols(const fb::PlanT& plan, const InputShapes& shapes,
                                       const InputValues& values = {});

}  // namespace sinter::plan
