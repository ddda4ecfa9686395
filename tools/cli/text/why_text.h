// SPDX-License-Identifier: Apache-2.0
// Why two nodes are or are not in one kernel, for people.
#pragma once

#include <string>
#include <vector>

#include "tools/compiler/inspect/why.h"

namespace sinter::tools {

std::vector<std::string> why_text(const WhyReport& report);

}  // namespace sinter::tools
