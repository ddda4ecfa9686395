// What a misspelt name may have meant.
#pragma once

#include <string>
#include <vector>

namespace sinter::tools {

/// Those of `names` that hold `name` or look like it, best first, at most five.
std::vector<std::string> near_matches(const std::string& name,
                                      const std::vector<std::string>& names);

}  // namespace sinter::tools
