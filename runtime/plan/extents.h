// SPDX-License-Identifier: Apache-2.0
// Sizes that a run finds: symbols whose value a step computes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Calls `visit(expression)` for all expressions of a step that say what it does, perhaps several
/// times; not for those that are figures only.
void for_each_expression(const fb::StepT& step,
                         const std::function<void(std::uint32_t expression)>& visit);

/// Buffers of kind Extent.
std::size_t count_extents(const fb::PlanT& plan);
/// The symbol whose number `buffer` holds; nothing if no expression has it.
std::optional<std::size_t> symbol_of_extent(const fb::PlanT& plan, std::uint32_t buffer);
/// For each expression whether it depends on a number that the run finds.
std::vector<bool> expressions_from_data(const fb::PlanT& plan);
/// The same for symbol `symbol` alone.
std::vector<bool> expressions_with(const fb::PlanT& plan, std::size_t symbol);

/// Puts the largest numbers that extents may have into `symbols`, whose others are known.
void bind_extents(const fb::PlanT& plan, std::vector<std::int64_t>& symbols);
/// Throws Error(kUsage) unless `value` may be that of extent `symbol`; `symbols` as bind_extents
/// left them.
void check_extent(const fb::PlanT& plan, std::size_t symbol, std::int64_t value,
                  std::span<const std::int64_t> symbols);

}  // namespace sinter::plan
