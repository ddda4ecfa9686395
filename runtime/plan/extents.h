// SPDX-License-Identifier: Apache-2.0
// Data-dependent sizes: symbols whose values a step computes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Calls `visit(expression)`, possibly several times, for all expressions that affect a step's
/// execution; not for statistics.
void for_each_expression(const fb::StepT& step,
                         const std::function<void(std::uint32_t expression)>& visit);

/// Number of buffers of kind Extent.
std::size_t count_extents(const fb::PlanT& plan);
/// The symbol whose value `buffer` holds; nullopt if no expression uses it.
std::optional<std::size_t> symbol_of_extent(const fb::PlanT& plan, std::uint32_t buffer);
/// For each expression: whether it depends on an extent that the run determines.
std::vector<bool> expressions_from_data(const fb::PlanT& plan);
/// The same for a single symbol.
std::vector<bool> expressions_with(const fb::PlanT& plan, std::size_t symbol);

/// Sets the symbols of extents to their maxima; all other symbols must be set.
void bind_extents(const fb::PlanT& plan, std::vector<std::int64_t>& symbols);
/// Throws Error(kUsage) unless `value` is in the range of extent `symbol`; `symbols` are those of
/// bind_extents.
void check_extent(const fb::PlanT& plan, std::size_t symbol, std::int64_t value,
                  std::span<const std::int64_t> symbols);

}  // namespace sinter::plan
