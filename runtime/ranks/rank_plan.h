// SPDX-License-Identifier: Apache-2.0
// What one rank of a plan runs, and how ranks share the states.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

/// `plan` with the weights of `rank`; the same object while one is in use, so that sessions share
/// what they make of weights.
std::shared_ptr<const plan::PlanData> plan_of_rank(
    const std::shared_ptr<const plan::PlanData>& plan, int rank);

/// The symbol that is the rank's number, if steps need it.
std::optional<std::size_t> rank_symbol(const plan::fb::PlanT& plan);

}  // namespace sinter::runtime
