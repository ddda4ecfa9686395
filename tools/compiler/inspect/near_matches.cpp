#include "tools/compiler/inspect/near_matches.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>
#include <utility>

namespace sinter::tools {
namespace {

/// Edits that make one of the other, case ignored.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const bool same = std::tolower(static_cast<unsigned char>(a[i])) ==
                        std::tolower(static_cast<unsigned char>(b[j]));
      const std::size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> near_matches(const std::string& name,
                                      const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& known : std::set<std::string>(names.begin(), names.end())) {
    const bool is_part = name.size() > 1 && known.find(name) != std::string::npos;
    const std::size_t edits = is_part ? 0 : distance(name, known);
    if (is_part || edits <= std::max<std::size_t>(2, name.size() / 4))
      found.emplace_back(edits, known);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  if (found.size() > kMost) found.resize(kMost);
  std::vector<std::string> best;
  for (auto& [edits, known] : found) best.push_back(std::move(known));
  return best;
}

}  // namespace sinter::tools
