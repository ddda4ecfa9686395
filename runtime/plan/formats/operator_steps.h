// SPDX-License-Identifier: Apache-2.0
// The upgrade from format 9 to 10.
#pragma once

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Converts old steps of their own kinds (sorts, suppressions, sampling, log probabilities, trees)
/// to OperatorSteps. The plan is not yet verified.
void make_operator_steps(fb::PlanT& plan);

}  // namespace sinter::plan
