// Errors of fused regions, for people.
#pragma once

#include <string>
#include <vector>

#include "tools/compiler/verify/region_check.h"

namespace sinter::tools {

std::string regions_text(const std::vector<RegionResult>& regions);

}  // namespace sinter::tools
