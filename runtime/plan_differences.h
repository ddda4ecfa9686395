// SPDX-License-Identifier: Apache-2.0
// Two plans side by side.
#pragma once

#include <string>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

/// What tells two plans apart besides the values of their weights and where those are from:
/// "steps", "kernels", ..; empty: nothing. The shapes of decision trees are no values.
std::string difference_but_weights(const plan::PlanData& a, const plan::PlanData& b);

}  // namespace sinter::runtime
