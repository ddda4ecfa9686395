#include "tools/cli/text/regions_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/cli/text/table.h"

namespace sinter::tools {
namespace {

std::string region_origins_text(const RegionResult& region, std::size_t most) {
  const auto count = std::min(most, region.origins.size());
  const auto end = region.origins.begin() + static_cast<std::ptrdiff_t>(count);
  return fmt::format("{}{}", fmt::join(region.origins.begin(), end, ", "),
                     count < region.origins.size()
                         ? fmt::format(" and {} more", region.origins.size() - count)
                         : "");
}

}  // namespace

std::string regions_text(const std::vector<RegionResult>& regions) {
  constexpr std::size_t kOrigins = 3;
  std::vector<std::vector<std::string>> rows = {
      {"region", "kind", "relative error", "bound", "", "from"}};
  for (const RegionResult& region : regions)
    rows.push_back({region.name, region.kind, fmt::format("{:.2e}", region.error),
                    fmt::format("{:.1e}", region.bound),
                    region.ok()              ? "ok"
                    : region.failure.empty() ? "DIFFERS"
                                             : "FAILS",
                    region_origins_text(region, kOrigins)});
  std::string text = format_table(rows);
  for (const RegionResult& region : regions)
    if (!region.failure.empty()) text += fmt::format("\n{} fails: {}", region.name, region.failure);
  return text;
}

}  // namespace sinter::tools
