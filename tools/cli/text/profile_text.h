// SPDX-License-Identifier: Apache-2.0
// Profiles as human-readable tables.
#pragma once

#include <string>
#include <vector>

#include <sinter/compiler.h>

namespace sinter::tools {

/// One row per step, and further rows for the parts of steps with several. Has columns for kernels
/// if some step has a generated GPU kernel.
std::string profile_table(const ProfileReport& report, std::size_t most = 0);
/// The totals and how they were measured, as lines.
std::vector<std::string> profile_summary(const ProfileReport& report);

}  // namespace sinter::tools
