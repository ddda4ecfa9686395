// SPDX-License-Identifier: Apache-2.0
// Compares two plans.
#pragma once

#include <string>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

/// The first difference of two plans ("steps", "kernels", ..) besides the weights' values and their
/// provenance; empty: none. The shapes of decision trees count as a difference.
std::string difference_but_weights(const plan::PlanData& a, const plan::PlanData& b);

}  // namespace sinter::runtime
