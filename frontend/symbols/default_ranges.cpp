// SPDX-License-Identifier: Apache-2.0
#include "frontend/symbols/default_ranges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinter::frontend {

void DefaultRanges::narrow(const std::string& symbol, const ir::Range& range, End end,
                           std::string why) {
  builder_.range(symbol, range);
  why_[symbol][end] = std::move(why);
}

void DefaultRanges::limit(const Dim& dim, std::int64_t max) {
  const auto symbol = dim.as_symbol();
  if (!symbol || !contains(*symbol)) return;
  ir::Range range = builder_.ranges().find(*symbol)->second;
  if (max >= range.max || max < range.min) return;
  range.max = max;
  narrow(*symbol, range, End::kMost,
         fmt::format("node '{}' uses it on a dimension of {}", label_, max));
}

void DefaultRanges::at_least(const Dim& dim, std::int64_t least) {
  const auto fits = [&](const ir::Ranges& ranges) {
    const auto low = ir::lower_bound(dim, ranges);
    return low && *low >= least;
  };
  const std::vector<std::string> symbols = dim.symbols();
  if (symbols.size() != 1 || !contains(symbols[0]) || fits(builder_.ranges())) return;
  ir::Ranges ranges = builder_.ranges();
  ir::Range& range = ranges.find(symbols[0])->second;
  const auto value_at = [&](std::int64_t n) {
    return ir::simplify(dim.substitute({{symbols[0], Dim(n)}}), {});
  };
  // Binary search, for the first value that fits if the dimension increases with the symbol, and
  // the last if it decreases. The result is verified afterwards.
  const auto first = value_at(range.min), last = value_at(range.max);
  const bool falls = first.is_constant() && last.is_constant() && last.value() < first.value();
  std::int64_t low = range.min, high = range.max;
  while (low < high) {
    const std::int64_t middle = low + (high - low + (falls ? 1 : 0)) / 2;
    const Dim value = value_at(middle);
    if (!value.is_constant()) return;
    if ((value.value() >= least) != falls)
      high = middle - (falls ? 1 : 0);
    else
      low = middle + (falls ? 0 : 1);
  }
  (falls ? range.max : range.min) = low;
  if (!fits(ranges)) return;
  narrow(symbols[0], range, falls ? End::kMost : End::kLeast,
         fmt::format("node '{}' has no result for {}", label_, falls ? "more" : "less"));
}

std::vector<std::string> DefaultRanges::notes() const {
  std::vector<std::string> notes;
  for (const auto& [symbol, ends] : why_) {
    const ir::Range& range = builder_.ranges().find(symbol)->second;
    std::vector<std::string> whys;
    for (const auto& [end, why] : ends) whys.push_back(why);
    notes.push_back(fmt::format(
        "dimension '{}' is limited to {}..{}, as {}; give a range to say otherwise (--dim "
        "{}=MIN..MAX)",
        symbol, range.min, range.max, fmt::join(whys, " and "), symbol));
  }
  return notes;
}

}  // namespace sinter::frontend
