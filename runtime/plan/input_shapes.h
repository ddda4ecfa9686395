// SPDX-License-Identifier: Apache-2.0
// Shapes of inputs to values of a plan's symbols, with every check that a user can fail.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

using InputShapes = std::vector<std::optional<std::vector<std::int64_t>>>;  // by input binding
/// What inputs hold whose value, or how many tokens of which, is a symbol (Symbol.value_of,
/// Symbol.tokens_of), by input binding.
using InputValues = std::vector<std::optional<std::int64_t>>;

/// The symbol that is the value of input `index`, or its tokens, if there is one.
std::optional<std::size_t> symbol_of_value(const fb::PlanT& plan, std::size_t index);

/// The most tokens of a mask of this shape; nothing if it is not known.
std::optional<std::int64_t> most_tokens(const std::optional<std::vector<std::int64_t>>& shape);

/// Throws Error(kUsage) unless `shape` has the rank of input `index` and every dimension is the
/// plan's or in its range.
void check_input_shape(const fb::PlanT& plan, std::size_t index,
                       const std::vector<std::int64_t>& shape);

/// Values of the plan's symbols. Throws Error(kUsage) naming both inputs if two shapes contradict
/// each other, naming the inputs that are missing to know every symbol, or if a value is not in its
/// symbol's range.
std::vector<std::int64_t> bind_symbols(const fb::PlanT& plan, const InputShapes& shapes,
                                       const InputValues& values = {});

}  // namespace sinter::plan
