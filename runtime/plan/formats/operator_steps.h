// SPDX-License-Identifier: Apache-2.0
// The step from format 9 to 10.
#pragma once

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Sorts, suppressions, sampling, log probabilities and trees, which had steps of their own, become
/// OperatorSteps. Nothing of the plan has been verified.
void make_operator_steps(fb::PlanT& plan);

}  // namespace sinter::plan
