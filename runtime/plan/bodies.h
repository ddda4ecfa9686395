// SPDX-License-Identifier: Apache-2.0
// Loops and branches among the steps of a plan: their bodies lie behind them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan_generated.h"
#include "runtime/plan/entries.h"

namespace sinter::plan {

/// The steps behind it that are a step's bodies.
std::size_t body_steps(const fb::WorkUnion& work);

/// Of the steps of `range`, the loops that a GPU's graph has as often as they run: their number of
/// iterations is known at launch, and with what they contain they are not too many launches.
std::vector<bool> captured_loops(const fb::PlanT& plan, const StepRange& range,
                                 std::span<const std::int64_t> expressions);

}  // namespace sinter::plan
