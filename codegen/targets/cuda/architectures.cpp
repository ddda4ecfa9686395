#include "codegen/targets/cuda/architectures.h"

#include <algorithm>
#include <charconv>

namespace sinter::codegen {

bool have_clusters(const std::vector<std::string>& architectures) {
  constexpr int kFirst = 90;
  for (const std::string& name : architectures) {
    int number = 0;
    const std::size_t digits = name.find_first_of("0123456789");
    if (digits != name.npos)
      std::from_chars(name.data() + digits, name.data() + name.size(), number);
    if (number < kFirst) return false;
  }
  return true;
}

bool have_warpgroups(const std::vector<std::string>& architectures) {
  return std::find(architectures.begin(), architectures.end(), "sm_90") != architectures.end();
}

}  // namespace sinter::codegen
