// SPDX-License-Identifier: Apache-2.0
// Entry points: select the steps that run for a shape.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// The entry point for these values of the plan's symbols: the first whose limits hold. Null if the
/// plan has no entry points and runs all steps. Throws Error(kUsage) listing the plan's limits if
/// none fits.
const fb::EntryT* find_entry(const fb::PlanT& plan, std::span<const std::int64_t> symbols);

/// The steps of an entry point; all steps for null.
inline StepRange steps_of(const fb::EntryT* entry) {
  return entry == nullptr ? StepRange{} : StepRange{entry->first_step, entry->step_count};
}

/// Whether `steps` may use the buffer: the size of another entry point's arena buffer is undefined
/// for this shape.
inline bool is_used(const fb::BufferT& buffer, StepRange steps) {
  return buffer.kind != fb::BufferKind::Arena ||
         (buffer.last_step >= steps.first &&
          (buffer.first_step < steps.first || buffer.first_step - steps.first < steps.count));
}

/// "sequence 2..2048, batch 1"; "any shape" without limits.
std::string limits_text(const fb::PlanT& plan, const fb::EntryT& entry);

}  // namespace sinter::plan
