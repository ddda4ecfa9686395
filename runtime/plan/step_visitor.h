// SPDX-License-Identifier: Apache-2.0
// Visits the work of a step: its own, or that of its tactics' parts.
#pragma once

#include "plan_generated.h"

namespace sinter::plan {

/// Calls `visit(const fb::WorkUnion&)` for all possible work of a step, in the plan's order; for a
/// choice, that is every part of every tactic.
template <typename Visit>
void for_each_step_work(const fb::WorkUnion& work, const Visit& visit) {
  const fb::TacticStepT* choice = work.AsTacticStep();
  if (!choice) {
    visit(work);
    return;
  }
  for (const auto& tactic : choice->tactics)
    for (const auto& part : tactic->parts) visit(part->work);
}

}  // namespace sinter::plan
