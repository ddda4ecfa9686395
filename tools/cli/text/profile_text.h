// SPDX-License-Identifier: Apache-2.0
// A profile for people.
#pragma once

#include <string>
#include <vector>

#include <sinter/compiler.h>

namespace sinter::tools {

/// One row for each step, further rows for parts of steps with several. Columns of kernels are
/// there if some step has a generated GPU kernel.
std::string profile_table(const ProfileReport& report, std::size_t most = 0);
/// The sums and how they were found, as lines.
std::vector<std::string> profile_summary(const ProfileReport& report);

}  // namespace sinter::tools
