#include "tools/compiler/options/entry_option.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::tools {
namespace {

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

EntryLimits parse_entry(const std::string& text) {
  const auto bad = [&] {
    return Error(ErrorCode::kUsage,
                 fmt::format("--entry: '{}' is no entry point: write NAME:DIM=MIN..MAX or "
                             "NAME:DIM=VALUE, several dimensions divided by commas",
                             text));
  };
  const auto colon = text.find(':');
  if (colon == std::string::npos || colon == 0) throw bad();
  EntryLimits entry{text.substr(0, colon), {}};
  for (std::size_t start = colon + 1; start <= text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    const std::string_view part = std::string_view(text).substr(start, end - start);
    start = end + 1;
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) throw bad();
    const std::string_view value = part.substr(equals + 1);
    const auto dots = value.find("..");
    const auto low = number(value.substr(0, dots));
    const auto high = dots == std::string_view::npos ? low : number(value.substr(dots + 2));
    if (!low || !high || *low > *high) throw bad();
    ir::Range range;
    range.min = *low, range.max = *high;
    if (!entry.limits.emplace(part.substr(0, equals), range).second) throw bad();
  }
  return entry;
}

}  // namespace

std::vector<EntryLimits> parse_entries(const std::vector<std::string>& texts) {
  std::vector<EntryLimits> entries;
  for (const std::string& text : texts) {
    entries.push_back(parse_entry(text));
    for (std::size_t i = 0; i + 1 < entries.size(); ++i)
      if (entries[i].name == entries.back().name)
        throw Error(ErrorCode::kUsage,
                    fmt::format("--entry: '{}' is there twice", entries[i].name));
  }
  return entries;
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
           std::any_of(entries.begin(), entries.end(),
                       [&](const EntryLimits& entry) { return !entry.limits.contains(one.first); });
  });
  return hull;
}

}  // namespace sinter::tools
