// The works of a step: its own, or those of its alternatives' parts.
#pragma once

#include "plan_generated.h"

namespace sinter::plan {

/// Calls `visit(const fb::WorkUnion&)` for everything that a step may do, in the plan's order; for
/// a choice that is every part of every alternative.
template <typename Visit>
void for_each_work(const fb::WorkUnion& work, const Visit& visit) {
  const fb::ChoiceStepT* choice = work.AsChoiceStep();
  if (!choice) {
    visit(work);
    return;
  }
  for (const auto& alternative : choice->alternatives)
    for (const auto& part : alternative->parts) visit(part->work);
}

}  // namespace sinter::plan
