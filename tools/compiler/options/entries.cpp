// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/entries.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/ranges.h>

#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<EntryLimits> limits_of(std::span<const EntryOptions> options) {
  std::vector<EntryLimits> entries;
  for (const EntryOptions& entry : options) {
    if (entry.name.empty() || entry.limits.empty())
      throw usage_error("--entry: '{}' has no {}", entry.name,
                        entry.name.empty() ? "name" : "dimensions");
    for (const EntryLimits& other : entries)
      if (other.name == entry.name) throw usage_error("--entry: '{}' is there twice", entry.name);
    EntryLimits& limits = entries.emplace_back(EntryLimits{entry.name, {}});
    for (const auto& [symbol, wanted] : entry.limits) {
      if (wanted.min > wanted.max || !wanted.same_as.empty() || wanted.multiple_of != 1)
        throw usage_error("--entry: '{}' limits '{}' by something else than a range", entry.name,
                          symbol);
      ir::Range range;
      range.min = wanted.min, range.max = wanted.max;
      limits.limits.emplace(symbol, range);
    }
  }
  return entries;
}

std::string to_text(const EntryLimits& entry) {
  return fmt::format("{}:{}", entry.name, fmt::join(dim_texts(entry), ","));
}

std::vector<std::string> dim_texts(const EntryLimits& entry) {
  std::vector<std::string> dims;
  for (const auto& [symbol, range] : entry.limits)
    dims.push_back(range.min == range.max ? fmt::format("{}={}", symbol, range.min)
                                          : fmt::format("{}={}..{}", symbol, range.min, range.max));
  return dims;
}

std::map<std::string, ir::Range> hull_of(std::span<const EntryLimits> entries,
                                         const ir::Graph& model) {
  std::map<std::string, ir::Range> hull;
  for (const EntryLimits& entry : entries)
    for (const auto& [symbol, range] : entry.limits) {
      auto& all = hull.emplace(symbol, range).first->second;
      all.min = std::min(all.min, range.min), all.max = std::max(all.max, range.max);
    }
  std::erase_if(hull, [&](const auto& one) {
    return model.ranges().contains(one.first) &&
           std::ranges::any_of(entries, [&](const EntryLimits& entry) {
             return !entry.limits.contains(one.first);
           });
  });
  return hull;
}

}  // namespace sinter::tools

namespace sinter {

EntryOptions parse_entry(std::string_view text) {
  const auto bad = [&] {
    return usage_error(
        "'{}' is no entry point: write NAME:DIM=MIN..MAX or "
        "NAME:DIM=VALUE, several dimensions divided by commas",
        text);
  };
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) throw bad();
  EntryOptions entry{std::string(text.substr(0, colon)), {}};
  for (std::size_t start = colon + 1; start <= text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    start = end + 1;
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) throw bad();
    const std::string_view value = part.substr(equals + 1);
    const auto dots = value.find("..");
    const auto low = tools::number(value.substr(0, dots));
    const auto high = dots == std::string_view::npos ? low : tools::number(value.substr(dots + 2));
    if (!low || !high || *low > *high) throw bad();
    DimRange range;
    range.min = *low, range.max = *high;
    if (!entry.limits.emplace(part.substr(0, equals), range).second) throw bad();
  }
  return entry;
}

}  // namespace sinter
