// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/entries.h"

#include <algorithm>

#include "runtime/format_error.h"

namespace sinter::plan {

const fb::EntryT* find_entry(const fb::PlanT& plan, std::span<const std::int64_t> symbols) {
  if (plan.entries.empty()) return nullptr;
  for (const auto& entry : plan.entries)
    if (std::ranges::all_of(entry->limits, [&](const fb::Limit& limit) {
          const std::int64_t value = symbols[limit.symbol()];
          return value >= limit.min() && value <= limit.max();
        }))
      return entry.get();
  std::string sizes, takes;
  for (std::size_t s = 0; s < plan.symbols.size(); ++s)
    sizes +=
        fmt::format("{}'{}' is {}", sizes.empty() ? "" : ", ", plan.symbols[s]->name, symbols[s]);
  for (const auto& entry : plan.entries)
    takes += fmt::format("{}'{}' takes {}", takes.empty() ? "" : ", ", entry->name,
                         limits_text(plan, *entry));
  throw usage_error(
      "no entry point of the plan takes these shapes ({}): {}; compile with another --entry", sizes,
      takes);
}

std::string limits_text(const fb::PlanT& plan, const fb::EntryT& entry) {
  std::string text;
  for (const fb::Limit& limit : entry.limits) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", plan.symbols[limit.symbol()]->name,
                        limit.min());
    if (limit.max() != limit.min()) text += fmt::format("..{}", limit.max());
  }
  return text.empty() ? "any shape" : text;
}

}  // namespace sinter::plan
