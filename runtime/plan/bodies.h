// SPDX-License-Identifier: Apache-2.0
// Loops and branches among a plan's steps: their bodies follow them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan_generated.h"
#include "runtime/plan/entries.h"

namespace sinter::plan {

/// Number of steps after a step that are its bodies.
std::size_t body_steps(const fb::WorkUnion& work);

/// For each step of `range`: true for a loop that a CUDA graph unrolls. Its number of iterations
/// must be known at launch, and its launches, nested ones included, must not be too many.
std::vector<bool> captured_loops(const fb::PlanT& plan, const StepRange& range,
                                 std::span<const std::int64_t> expressions);

}  // namespace sinter::plan
