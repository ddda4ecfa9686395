// SPDX-License-Identifier: Apache-2.0
// The steps of a plan with what each moves and computes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "runtime/plan/plan_data.h"

namespace sinter::tools {

/// Values of the plan's expressions where its inputs have these shapes. Throws Error(kUsage) if
/// these contradict the plan or leave a symbol open.
std::vector<std::int64_t> bind_shapes(const plan::fb::PlanT& plan, const Shapes& shapes);

/// The steps that are run for `values`; all if there are none.
plan::StepRange steps_for(const plan::fb::PlanT& plan, const std::vector<std::int64_t>& values);

/// One text for each of plan.expressions: "384", "batch*seq", "floordiv(seq, 2)".
std::vector<std::string> expression_texts(const plan::fb::PlanT& plan);

/// "m % 8 == 0", "m <= 64"; `texts` are those of the plan's expressions.
std::vector<std::string> conditions_text(const std::vector<plan::fb::Condition>& conditions,
                                         const std::vector<std::string>& texts);

/// Kernels, library calls and copies of a step: of the first of its tactics whose conditions
/// hold for `values`, the plan's best guess (a GPU may find another to be faster); of the very
/// first if there are no values.
std::size_t launches_of(const plan::fb::PlanT& plan, const plan::fb::StepT& step,
                        const std::vector<std::int64_t>& values);

/// Adds "step_list", and with values "totals", to `report`. Without values sizes are shown as
/// expressions.
void list_steps(const plan::fb::PlanT& plan, const std::vector<std::int64_t>& values,
                nlohmann::ordered_json& report);

}  // namespace sinter::tools
