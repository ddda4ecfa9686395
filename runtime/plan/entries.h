// SPDX-License-Identifier: Apache-2.0
// Entry points: which steps are run for which shapes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// The entry point for values of the plan's symbols: the first whose limits hold; null if the plan
/// has none, so that all steps are run. Throws Error(kUsage) saying what the plan takes if none
/// fits.
const fb::EntryT* find_entry(const fb::PlanT& plan, std::span<const std::int64_t> symbols);

/// The steps of an entry point, or all.
inline StepRange steps_of(const fb::EntryT* entry) {
  return entry == nullptr ? StepRange{} : StepRange{entry->first_step, entry->step_count};
}

/// Whether `steps` may use the buffer: an arena buffer of others has no meaning for their shapes.
inline bool is_used(const fb::BufferT& buffer, StepRange steps) {
  return buffer.kind != fb::BufferKind::Arena ||
         (buffer.last_step >= steps.first &&
          (buffer.first_step < steps.first || buffer.first_step - steps.first < steps.count));
}

/// "sequence 2..2048, batch 1"; "any shape" without limits.
std::string limits_text(const fb::PlanT& plan, const fb::EntryT& entry);

}  // namespace sinter::plan
