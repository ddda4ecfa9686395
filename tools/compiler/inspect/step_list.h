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

/// Values of the plan's expressions for these input shapes. Throws Error(kUsage) if the shapes
/// contradict the plan or leave a symbol open.
std::vector<std::int64_t> bind_shapes(const plan::fb::PlanT& plan, const Shapes& shapes);

/// The steps that run for `values`; all steps if it is empty.
plan::StepRange steps_for(const plan::fb::PlanT& plan, const std::vector<std::int64_t>& values);

/// One text per expression of the plan: "384", "batch*seq", "floordiv(seq, 2)".
std::vector<std::string> expression_texts(const plan::fb::PlanT& plan);

/// "m % 8 == 0", "m <= 64"; `texts` describe the plan's expressions.
std::vector<std::string> conditions_text(const std::vector<plan::fb::Condition>& conditions,
                                         const std::vector<std::string>& texts);

/// Number of kernels, library calls and copies of a step. For a choice, that is the first tactic
/// whose conditions hold for `values`: the compiler's guess, which timing on a GPU may overrule.
/// Without values, the first tactic.
std::size_t launches_of(const plan::fb::PlanT& plan, const plan::fb::StepT& step,
                        const std::vector<std::int64_t>& values);

/// Adds "step_list" and, with values, "totals" to `report`. Without values, sizes are expressions.
void list_steps(const plan::fb::PlanT& plan, const std::vector<std::int64_t>& values,
                nlohmann::ordered_json& report);

}  // namespace sinter::tools
