// SPDX-License-Identifier: Apache-2.0
// Interprets a profile: the limit of each step, and how a run's time divides.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include <sinter/compiler.h>

#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// Medians over `rounds` (profiles of one run, with equal steps and parts).
std::vector<StepTime> median_of(const std::vector<std::vector<StepTime>>& rounds);

ProfileReport make_report(std::vector<StepTime> steps, const MachineRates& rates, double whole_us);
nlohmann::ordered_json to_json(const ProfileReport& report);

/// sinter::profile without the exception boundary. Progress is stage "measuring".
ProfileReport profile_plan(const Plan& plan, const ProfileOptions& options,
                           const Reporter& reporter);

}  // namespace sinter::tools
