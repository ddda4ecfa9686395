// Lists of names as sets: where the origins of nodes come together.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace sinter::ir {

/// Puts `names` in order, each once.
inline void sort_unique(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace sinter::ir
