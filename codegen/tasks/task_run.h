// SPDX-License-Identifier: Apache-2.0
// Runs of steps that become one step: as tasks of one launch, or as the kernels that they are.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "codegen/families/family.h"

namespace sinter::codegen {

/// A step of a run, and which of its tactics makes its tasks.
struct RunStep {
  StepTactics step;
  std::size_t tactic = 0;
  std::vector<std::string> origins;
};

/// The tactic of a step whose only part is a kernel that can be tasks on every device of the plan;
/// otherwise `why` says what is in the way.
std::optional<std::size_t> task_tactic(const StepTactics& step, PlanContext& plan,
                                       std::string& why);

/// One step for a run of two and more. Its first tactic is the persistent kernel, behind a launch
/// that clears its counters; its last one the steps' own kernels, one after the other. A step's
/// level is behind those of all steps that write what it reads or writes, or read what it writes.
StepTactics merge_run(std::vector<RunStep> run, const std::string& name, PlanContext& plan);

}  // namespace sinter::codegen
